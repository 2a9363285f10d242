package perm

import (
	"path"
	"strings"
	"testing"
)

// examples are, for each row of secrets and settings, names that it hides and
// names that it leaves alone, whatever other rows do.
var examples = map[string]struct{ hidden, open string }{
	".env": {
		".env a/b/.env .env/x .ENV",
		".environment env.ts .env.example",
	},
	".env.*": {
		".env.local .env.production .env.d/x .Env.Local",
		".env.example .env.local.example .env.production.sample .env.schema",
	},
	".env[-_]*": {
		".env-prod .env_old",
		".env-example .envoy",
	},
	".envs/": {
		".envs/.production/.django",
		".envs.md",
	},
	"*.env": {
		"prod.env docker/db.env Prod.ENV",
		"example.env prod.example.env go.env env.d.ts",
	},
	"env.{local,prod,production,staging}": {
		"env.local env.production",
		"env.js env.d.ts env.local.ts",
	},
	".dev.vars": {
		".dev.vars",
		"dev.vars.md",
	},
	".dev.vars.*": {
		".dev.vars.staging",
		".dev.vars.example",
	},
	"local.settings.json": {
		"local.settings.json",
		"settings.json",
	},
	".runtimeconfig.json": {
		".runtimeconfig.json",
		"runtimeconfig.json",
	},
	"id_{rsa,dsa,ecdsa,ecdsa_sk,ed25519,ed25519_sk,xmss}": {
		"id_rsa deploy/id_ed25519 ID_RSA",
		"id_rsa.pub rsa",
	},
	"id_{rsa,dsa,ecdsa,ed25519,xmss}[-_.]*": {
		"id_rsa.bak id_rsa_deploy id_ed25519-work",
		"id_rsa.pub id_rsa-cert.pub id_rsa.go",
	},
	"?*[-_.]{rsa,dsa,ecdsa,ed25519}": {
		"deploy_rsa github_ed25519",
		"rsa valid_rsas rsa.go",
	},
	"ssh_host_*_key": {
		"ssh_host_ed25519_key",
		"ssh_host_ed25519_key.pub",
	},
	".ssh/": {
		".ssh/config .ssh/known_hosts",
		"ssh/config",
	},
	"*.pem": {
		"key.pem privkey.pem server.pem SERVER.PEM",
		"cacert.pem cert.pem server-cert.pem client.crt.pem ca-bundle.pem fullchain.pem public.pem jwt_public.pem dhparam.pem",
	},
	"*.key": {
		"server.key tls/tls.key config/master.key CA.KEY",
		"public.key jwt.public.key key.go keys.go",
	},
	"*.{p12,pfx,pkcs12,p8,pvk,ppk,jks,jceks,bks,bcfks,keystore,keytab}": {
		"store.p12 cert.pfx app.jks AuthKey_ABC123.p8 Release.P12",
		"keystore.go cert.crt cert.cer",
	},
	"*.{kdbx,kdb,psafe3,agekey,opvault,agilekeychain,keychain,keychain-db,1pux,ovpn}": {
		"pass.kdbx vault.psafe3 vpn.ovpn",
		"keychain.go",
	},
	"{{.,}{private,priv,secret}{,-,_}key{,.*},*[-_.]{private,priv,secret}{-,_}key}": {
		"private_key private-key.txt privatekey.json secret_key .secret_key SECRET_KEY vagrant_private_key",
		"private_key.go private_key_test.py secret_key.rb public_key private.go",
	},
	"privkey*": {
		"privkey1",
		"privkey.rs",
	},
	"{*[-_.],}deploy[-_]key": {
		"deploy_key web-deploy-key",
		"deploy_key.pub deploy_key.go",
	},
	"*{private,secret}*.{asc,gpg}": {
		"private.asc my-secret-key.gpg",
		"public.asc release.tar.gz.asc",
	},
	".gnupg/": {
		".gnupg/pubring.kbx",
		"gnupg.md",
	},
	"{secring.gpg,private-keys-v1.d}": {
		"secring.gpg private-keys-v1.d/ABC.key",
		"pubring.gpg",
	},
	".password-store/": {
		".password-store/mail.gpg",
		"password-store.md",
	},
	".config/{sops,age}/": {
		".config/sops/age/keys.txt",
		".sops.yaml",
	},
	"{wallet.dat,mnemonic.txt,seed{-,_,}phrase.txt}": {
		"wallet.dat mnemonic.txt seed-phrase.txt",
		"seed.txt wallet.go",
	},
	"keystore/UTC--*": {
		"keystore/UTC--2026-01-01T00-00-00.0Z--abc",
		"keystore/README.md",
	},
	"{wg[0-9]*.conf,ipsec.secrets,{chap,pap}-secrets,psk.txt,*.nmconnection,wpa_supplicant.conf}": {
		"wg0.conf ipsec.secrets chap-secrets home.nmconnection wpa_supplicant.conf psk.txt",
		"wg.conf nginx.conf",
	},
	".aws/{credentials,config,sso,cli}": {
		".aws/credentials .aws/config .aws/sso/cache/x.json",
		".aws/task-definition.json",
	},
	"{aws_credentials,.aws-credentials,.s3cfg,.boto,.passwd-s3fs,.tugboat}": {
		"aws_credentials .aws-credentials .s3cfg .boto",
		"boto.py",
	},
	"{rootkey,credentials,*accessKeys}.csv": {
		"rootkey.csv bob_accessKeys.csv credentials.csv",
		"data.csv",
	},
	".azure/": {
		".azure/azureProfile.json",
		"azure/main.bicep",
	},
	"{accessTokens.json,azureProfile.json,msal_token_cache.*,*.publishsettings}": {
		"accessTokens.json msal_token_cache.bin sub.publishsettings",
		"tokens.json",
	},
	"{.config/gcloud,.gcloud,.gcp}/": {
		".config/gcloud/credentials.db .gcp/key .gcloud/x",
		"gcp/main.tf",
	},
	"{application_default_credentials.json,access_tokens.db,credentials.db}": {
		"application_default_credentials.json access_tokens.db",
		"app.db",
	},
	"{*[-_.],}{service,svc}{,-,_}account*.json": {
		"service-account.json service_account.json serviceAccountKey.json prod-service-account.json",
		"service_account.example.json service_account.go serviceaccount.yaml",
	},
	"*serviceAccount*.json": {
		"my-serviceAccountKey.json",
		"serviceaccounts.json.md",
	},
	"*firebase-adminsdk*.json": {
		"proj-firebase-adminsdk-x1.json",
		"firebase.json",
	},
	"{client_secret,gcp-key,gha-creds-}*.json": {
		"client_secret_123.json gha-creds-1.json",
		"client_secret.example.json client.json",
	},
	"{sa,key,{*[-_.],}sa[-_]key}.json": {
		"sa.json key.json gcp-sa-key.json",
		"keys.json data.json",
	},
	".config/{doctl,hub,gh,glab-cli,github-copilot,rclone,op,heroku,fly,flyctl,containers,hcloud,scw,stripe,ngrok,netlify,solana,wandb,huggingface}": {
		".config/gh/hosts.yml .config/hub .config/hcloud/cli.toml",
		".config/nvim/init.lua config/heroku.rb",
	},
	".{kube,oci,bluemix,aliyun,tencentcloud,fly,linode-cli,doctl,minikube,talos,openstack,hcloud,railway,stripe,jfrog,snowsql,snowflake,huggingface,ngrok2,doppler,okta,tsh}/": {
		".ngrok2/ngrok.yml .doppler/.doppler.yaml .okta/okta.yaml .tsh/current-profile .kube/config .oci/config .talos/config .jfrog/x .huggingface/token",
		"kube/config stripe/index.js",
	},
	"{kubeconfig,kube[-_.]config,*[-_]kubeconfig,*.kubeconfig}{,.yaml,.yml,.json,.conf}": {
		"kubeconfig kubeconfig.yaml prod.kubeconfig my-kubeconfig.yml kube.config",
		"kubeconfig.go kube/config",
	},
	"kubeconfig[-_.]*": {
		"kubeconfig-prod",
		"kubeconfig_test.go",
	},
	"{{,.}talosconfig,k3s.yaml,kubelet.conf,kubernetes/admin.conf}": {
		"talosconfig k3s.yaml etc/kubernetes/admin.conf",
		"k3s.md conf/admin.conf",
	},
	"{clouds.yaml,secure.yaml,{*[-_.],}openrc.sh}": {
		"clouds.yaml admin-openrc.sh",
		"cloud.yaml",
	},
	".config/configstore/firebase-tools.json": {
		".config/configstore/firebase-tools.json",
		".config/configstore/update-notifier-npm.json firebase.json",
	},
	"{.local/share/keyrings,.config/Bitwarden,.electrum/wallets}/": {
		".local/share/keyrings/login.keyring .config/Bitwarden/data.json .electrum/wallets/default",
		".local/share/x keyrings/x",
	},
	".docker/config.json": {
		".docker/config.json",
		"docker/config.json .docker/Dockerfile",
	},
	"{.dockercfg,.dockerconfigjson}": {
		".dockercfg .dockerconfigjson",
		".dockerignore",
	},
	"*.tfstate": {
		"terraform.tfstate env/prod.tfstate .terraform/terraform.tfstate",
		"main.tf",
	},
	"*.tfstate.*": {
		"terraform.tfstate.backup",
		"tfstate.md",
	},
	"*.tfvars{,.json}": {
		"terraform.tfvars prod.auto.tfvars x.tfvars.json",
		"terraform.tfvars.example example.tfvars prod.example.tfvars variables.tf",
	},
	"{.terraformrc,terraform.rc,credentials.tfrc.json}": {
		".terraformrc credentials.tfrc.json",
		".terraform.lock.hcl",
	},
	".terraform.d/": {
		".terraform.d/credentials.tfrc.json",
		".terraform/modules/modules.json",
	},
	".pulumi/credentials.json": {
		".pulumi/credentials.json",
		"Pulumi.yaml Pulumi.dev.yaml",
	},
	"{.,}vault{-,_}pass{,word}{,[-_]file}{,.*}": {
		".vault_pass vault-password vault_password.txt vault_password_file",
		"vault_password.py",
	},
	"{group_vars,host_vars}/**/vault*": {
		"group_vars/all/vault.yml host_vars/a/vault_b.yml",
		"group_vars/all/main.yml",
	},
	"{.ansible/vault,.chef/knife.rb}": {
		".ansible/vault .chef/knife.rb",
		".chef/README.md",
	},
	"{.vault-token,encrypted_data_bag_secret,rclone.conf}": {
		".vault-token encrypted_data_bag_secret rclone.conf",
		"rclone.md",
	},
	"{.databrickscfg,.dbt/profiles.yml,.mc/config.json,.sentryclirc,sentry.properties,.supabase/access-token,.vercel/auth.json,.wrangler/config/default.toml}": {
		".databrickscfg .dbt/profiles.yml .sentryclirc .vercel/auth.json",
		".vercel/project.json dbt/profiles.yml",
	},
	"{.pypirc,.netrc,_netrc,.git-credentials,.gitcookies}": {
		".pypirc .netrc .git-credentials",
		".gitignore",
	},
	"{.npmrc,.yarnrc,.pypirc,.netrc,_netrc,.git-credentials,.pgpass,.my.cnf,.htpasswd}.*": {
		".npmrc.bak .netrc.1 .pgpass.old",
		".npmrc.example .yarnrc.yml",
	},
	"{.gem/credentials,.cargo/credentials{,.toml}}": {
		".gem/credentials .cargo/credentials.toml",
		".cargo/config.toml",
	},
	"{.m2/settings{,-security},.mvn/settings,maven-settings}.xml": {
		".m2/settings.xml .m2/settings-security.xml .mvn/settings.xml",
		"settings.xml .mvn/extensions.xml",
	},
	"{/,{.composer,composer,.codex}/}auth.json": {
		"auth.json .composer/auth.json .codex/auth.json",
		"locales/en/auth.json composer.json",
	},
	"{{pypoetry,.poetry}/auth.toml,.pause,.hex/hex.config}": {
		".config/pypoetry/auth.toml .poetry/auth.toml .hex/hex.config",
		"pyproject.toml",
	},
	"{.pgpass,pgpass.conf,.my.cnf,.mylogin.cnf,.htdigest,proftpdpasswd,{*[-_.],}htpasswd,jmxremote.password,tomcat-users.xml}": {
		".pgpass .my.cnf .htpasswd site.htpasswd tomcat-users.xml",
		"my.cnf",
	},
	"{.ftpconfig,sftp-config.json,.remote-sync.json,.vscode/{s,}ftp.json}": {
		".ftpconfig sftp-config.json .vscode/sftp.json",
		".vscode/settings.json",
	},
	".idea/{WebServers.xml,dataSources.local.xml,dataSources/}": {
		".idea/WebServers.xml .idea/webServers.xml .idea/dataSources/x",
		".idea/workspace.xml",
	},
	"{sitemanager,recentservers,filezilla}.xml": {
		"recentservers.xml",
		"sitemap.xml",
	},
	"{.authinfo,.authinfo.gpg,.msmtprc,.fetchmailrc,.mbsyncrc,.offlineimaprc,.lftp/bookmarks,.curlrc,.wgetrc,.sshpass}": {
		".mbsyncrc .offlineimaprc .lftp/bookmarks .authinfo .msmtprc .curlrc",
		"curlrc.md",
	},
	"{*http-client.private.env.json,*.postman_environment.json}": {
		"http-client.private.env.json dev.postman_environment.json",
		"http-client.env.json api.postman_collection.json",
	},
	"{{.claude/,}.credentials.json,.claude.json,.gemini/oauth_creds.json,opencode/auth.json,kaggle.json}": {
		".local/share/opencode/auth.json .claude/.credentials.json .claude.json kaggle.json",
		".claude/settings.json",
	},
	"{.openai{,[-_.]*},.continue/config.*}": {
		".openai .openai_key .continue/config.json",
		"openai.py .continue/rules.md",
	},
	".erlang.cookie": {
		".erlang.cookie",
		"erlang.mk",
	},
	"{wp-config*.php,LocalSettings.php,/configuration.php,sites/*/settings{,.local}.php,app/etc/env.php,config/app_local.php}": {
		"wp-config.php wp-config-prod.php LocalSettings.php sites/default/settings.php app/etc/env.php",
		"wp-config-sample.php src/configuration.php settings.php sites/default/default.settings.php",
	},
	"{app/config/parameters.yml,config/initializers/secret_token.rb,*.secret.exs,local_settings.py}": {
		"config/prod.secret.exs local_settings.py app/config/parameters.yml",
		"parameters.yml settings.py prod.exs config/database.yml",
	},
	"{appsettings.{Local,Production}.json,connectionStrings.{json,config},application-{local,secret,secrets}.{properties,yml,yaml}}": {
		"appsettings.Production.json connectionStrings.config application-local.yml",
		"appsettings.json appsettings.Development.json application.yml",
	},
	"{key,keystore,signing}.properties": {
		"key.properties keystore.properties",
		"gradle.properties app.properties",
	},
	"/{secret,credentials}/**": {
		"secret/token credentials/db",
		"secret/secret.go credentials/provider.go",
	},
	".{secrets,secret,private}/": {
		".secrets/x .private/y",
		"private/y",
	},
	".{secrets,secret}{,.*}": {
		".secrets .secret .secrets.toml",
		".secrets.baseline .secrets.example",
	},
	"secrets/**": {
		"secrets/db.txt secrets/a/b.yaml Secrets/x deploy/secrets/db_password.txt",
		"internal/secrets/secrets.go secrets/main.go packages/secrets/package.json",
	},
	"{*[-_.],}{secret,secrets,credential,credentials}.{json,yml,yaml,toml,ini,env,xml,txt,properties,conf,cfg}": {
		"secrets.yml Secrets.yml config/credentials.json db-secret.yaml app_secrets.json",
		"secrets.py credentials.go secret.md",
	},
	"{.,*[-_.],}{secret,credential,credentials}": {
		".credentials credentials cookie_secret aws/credentials",
		"secretary nosecret",
	},
	"{{.,*[-_.],}{token,tokens},{.,}{api-key,api_key,apikey}}": {
		".token token github_token .npm_token .api_key",
		"tokens.go tokenizer",
	},
	"{password,passwords,passwd,token,tokens,apikey,api_key,pat}.txt": {
		"passwords.txt token.txt pat.txt",
		"README.txt",
	},
	"{{password,passwords}.csv,token.{json,pickle},{access,refresh,auth,bearer}[-_]token.{json,txt}}": {
		"passwords.csv token.json access_token.json",
		"tokens.json token.go",
	},
	"{api{,-,_}key{,s}.{json,yml,yaml,toml,txt},oauth{,2}[-_]{token,tokens,creds,credentials,secret,secrets}.json}": {
		"api_keys.json apikey.yaml oauth_creds.json oauth2-token.json",
		"api_key.py oauth.json",
	},
	"etc/{shadow,gshadow,security/opasswd}{,-}": {
		"etc/shadow rootfs/etc/shadow-",
		"etc/passwd shadow.css",
	},
	".*_history": {
		".bash_history .psql_history",
		"history.go",
	},
	"{.history,.zhistory,.histfile,.Rhistory,fish_history,.viminfo}": {
		".history .Rhistory fish_history",
		".historyrc HISTORY.md",
	},
	".envrc": {
		".envrc",
		"envrc.md",
	},
	".envrc.*": {
		".envrc.local",
		".envrc.example",
	},
	"{.npmrc,.yarnrc{,.yml},.pnpmrc,.condarc,pip.conf}": {
		".npmrc packages/a/.npmrc .yarnrc.yml pip.conf",
		".nvmrc pip.md",
	},
	".pip/": {
		".pip/pip.conf",
		"pip/x",
	},
	".bundle/config": {
		".bundle/config",
		".bundle/plugin",
	},
	".gradle/gradle.properties": {
		".gradle/gradle.properties",
		"gradle.properties",
	},
	"nuget.config": {
		".nuget/NuGet.Config NuGet.Config nuget.config",
		"nuget.md",
	},
	"local.properties": {
		"local.properties",
		"gradle.properties",
	},
	"{.mcp.json,.cursor/mcp.json,.aider.conf.yml}": {
		".mcp.json .cursor/mcp.json .aider.conf.yml",
		"mcp.json",
	},
}

// copyForms are names of copies of a file NAME.
var copyForms = []string{
	".NAME.swp", ".NAME.swo", ".NAME.swa", ".NAME.un~", "#NAME#", ".#NAME", // of vim and emacs
	"NAME~", "NAME.~1~", "NAME.save", "NAME.save.1", // of emacs, vim and nano
	"NAME.bak", "NAME.bak2", "NAME.BAK", "NAME.backup", "NAME.old", "NAME.orig", // of people and programs
	"NAME copy", "NAME copy 2", "NAME (copy)", "NAME (Copy 2)", "NAME - Copy", "NAME - Copy (2)", // of desktops
}

// copiesOfCopies are those that an editor or a person makes of a copy.
var copiesOfCopies = []string{
	".NAME.bak.swp", "#NAME~#", "NAME.bak~", "NAME.bak.~1~", "NAME.old.2~", "NAME copy~", "NAME.bak.bak", "NAME~~",
	"#NAME.bak~#", ".NAME.swp~", "NAME.orig - Copy (2).old~",
}

// checkCopies checks that a rule, which is a row's, hides the copies of names that the row hides,
// and no others.
func checkCopies(t *testing.T, rule Rule, hidden, open string) {
	t.Helper()
	all := Rule{Pattern: "**", Level: Write}
	p := mustCompile(t, all, rule)
	rule.Copies = false
	plain := mustCompile(t, all, rule)
	check := func(names string, want Level, forms ...string) {
		for _, file := range strings.Fields(names) {
			dir, name := path.Split(file)
			forms := append(forms, copyForms...)
			if name[0] == '.' {
				forms = append(forms, "NAME.swp", "NAME.swo", "NAME.un~")
			}
			for _, form := range forms {
				copied := dir + strings.ReplaceAll(form, "NAME", name)
				if want != None && (plain.Level(copied, false) == None || form[0] == '.' && p.Level(dir+"."+name, false) == None) {
					continue // the pattern has it, or it is also a copy of what the row hides
				}
				if got := p.Level(copied, false); got != want {
					t.Errorf("%s: %s is %v, want %v", rule.Pattern, copied, got, want)
				}
			}
		}
	}
	check(hidden, None, copiesOfCopies...)
	check(open, Write)
}

// TestCopiesStayNear: names that only look like those of copies of secrets are visible.
func TestCopiesStayNear(t *testing.T) {
	p := mustCompile(t, preset(t, DefaultPreset)...)
	for _, name := range []string{
		".id_utils.py.swp", ".id_rsa_utils.py.swp", ".main.go.swp", "main.go~", "config.json.bak", ".id_rsa.pub.swp",
		"cacert.pem.bak", "#main.go#", ".#main.go", ".swp", "..swp", "~", "##", "#", ".#", "#~#", "git-credential.1", "token.1", "env.swp",
		"key.jsonbak", "key.json.swp", "copy", " copy", " (copy)", "key.go (copy)", ".environment.swp", "passwords.txt.go", ".key.json.swq",
		"key.json - Copy (2", "key.json - Copy 2)", "key.json (2)", "main.go.bak~", ".main.go.swp~", strings.Repeat("~", 255), ".." + strings.Repeat(".swp", 60),
	} {
		if got := p.Level(name, false); got != Write {
			t.Errorf("%s is %v", name, got)
		}
	}
	for _, name := range []string{"id_rsa~", ".key.json.swp"} {
		if got := p.Level(name, true); got != Write {
			t.Errorf("a directory %s is %v: copies are files", name, got)
		}
	}
}

// TestCopiesOfExcepted: a copy of what a row excepts is excepted, too, though the row's pattern
// has its name; unless it may be one of a secret.
func TestCopiesOfExcepted(t *testing.T) {
	p := mustCompile(t, preset(t, DefaultPreset)...)
	for want, names := range map[Level][]string{
		Write: {
			".env.example~", ".env.example.swp", ".env.example.orig", ".env.sample.bak", ".env.example.bak~", ".env.example (copy)",
			"id_rsa.pub~", "id_rsa.pub.bak", "terraform.tfvars.example~", "secrets/main.go~", "secrets/a/main.go.orig", "privkey_test.go~",
		},
		None: {
			".env.local~", ".env.bak", ".env.bak.local", ".env.example.local", ".go.env.swp", "id_rsa.old~", "id_rsa.bak",
			".env.example.local~", "secrets/db.json~", "secrets/db.json.orig", "secrets/.main.go.bak/x",
		},
	} {
		for _, name := range names {
			if got := p.Level(name, false); got != want {
				t.Errorf("%s is %v, want %v: %v", name, got, want, p.Explain(name, false))
			}
		}
	}
	if got := p.Level(".env.example~", true); got == Write {
		t.Error("a directory .env.example~ is shown: copies are files")
	}
}

// TestSecretRows: each row alone hides what it is for, and no more.
func TestSecretRows(t *testing.T) {
	seen := map[string]bool{}
	for _, list := range [][]secret{secrets, settings} {
		for _, s := range list {
			ex, ok := examples[s.pattern]
			if !ok || seen[s.pattern] || len(strings.Fields(ex.hidden)) == 0 || len(strings.Fields(ex.open)) == 0 || s.reason == "" {
				t.Errorf("%s: no reason, no examples, or twice", s.pattern)
			}
			seen[s.pattern] = true
			rule := s.rule(None, "preset x")
			if rule.Reason() != s.reason {
				t.Errorf("%s: reason %q", s.pattern, rule.Reason())
			}
			p := mustCompile(t, Rule{Pattern: "**", Level: Write}, rule)
			for _, name := range strings.Fields(ex.hidden) {
				if got := p.Level(name, false); got != None {
					t.Errorf("%s does not hide %s", s.pattern, name)
				}
				if got := p.Level("a/"+name, false); got != None && !strings.Contains(s.pattern, "{/") && !strings.Contains(s.pattern, ",/") && s.pattern[0] != '/' {
					t.Errorf("%s does not hide a/%s", s.pattern, name)
				}
				for _, dir := range []string{"testdata", "src/fixtures", "node_modules/x", "a/vendor", "lib/site-packages/y"} {
					if got := p.Level(dir+"/"+name, false); got != Write {
						t.Errorf("%s hides %s/%s", s.pattern, dir, name)
					}
				}
			}
			for _, name := range strings.Fields(ex.open) {
				if got := p.Level(name, false); got != Write {
					t.Errorf("%s hides %s", s.pattern, name)
				}
			}
			checkCopies(t, rule, ex.hidden, ex.open)
		}
	}
	for pattern := range examples {
		if !seen[pattern] {
			t.Errorf("%s: examples of no row", pattern)
		}
	}
}
