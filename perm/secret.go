package perm

// A secret is a pattern of files that hold credentials. except is the pattern of
// names that match and hold none; reason describes the content, for people.
type secret struct {
	pattern, except string
	kind            Kind
	reason          string
}

// templates are the words that mark a file as one to be copied and filled in.
const templates = "{example,sample,template,tmpl,tpl,dist,default,defaults,schema}"

// packages are directories of published packages and test data: what looks like a
// secret there is public, and tools must be able to unpack every file.
const packages = "{node_modules,vendor,site-packages,testdata,fixtures}"

// sources are the names of source code, packaging and documentation, which mention
// secrets without holding any.
const sources = "{*.{go,rs,c,cc,cpp,h,hpp,py,pyi,rb,php,pl,lua,js,jsx,mjs,cjs,ts,tsx,mts,cts,vue,svelte," +
	"java,kt,kts,scala,groovy,clj,cs,fs,vb,swift,m,mm,dart,ex,exs,erl,hs,ml,mli,nim,zig,r,jl," +
	"proto,graphql,tf,bzl,bazel,gradle,csproj,html,css,scss,md,mdx,rst,adoc}," +
	"go.{mod,sum},{package,tsconfig*}.json,Cargo.toml,pyproject.toml,setup.cfg,pom.xml,py.typed," +
	"README*,LICENSE*,BUILD,Makefile,Dockerfile,CMakeLists.txt}"

// publicPEM are the names of certificates, bundles and chains of them, and of
// public keys.
const publicPEM = "{{cacert,cacerts,ca,ca-cert,ca-certs,ca_cert,ca-certificates,ca-bundle,ca_bundle,tls-ca-bundle," +
	"rootca,root-ca,root,roots,chain,fullchain,global-bundle,intermediate}," +
	"{*[-_.],}{cert,certs,crt,certificate,certificates}," +
	"*[-_.]{ca,ca-bundle,ca_bundle,ca-cert,ca_cert,cacert,chain,fullchain}," +
	"{*[-_.],}{public,pub,pubkey,public-key,public_key},dhparam*,dh[0-9]*}.pem"

// secrets are hidden by every preset but full-access, in either case of letters, and not below
// packages, and so are copies of such files. Most rows also match a directory of that name:
// revealing one by hand is better than forgetting one.
//
// A sandbox cannot make a file with such a name either, also not by git. To show a file that was
// made inside until the host writes to it would show the host's content for a moment: the event
// comes after the write, and a write through a mapping has none until the file is closed.
//
// A row must be a secret with high confidence, and not a name that tools create in a new project,
// which would fail. So there is no row for application.yml, config/database.yml,
// appsettings.Development.json, gradle.properties, web.config, Pulumi.*.yaml, settings.xml,
// etc/passwd and *.mobileprovision, nor for names that are too common: *token, PROJECT-HEX.json,
// oauth.json, auth.json below the root, *.asc, *.gpg, parameters.yml, admin.conf, ngrok.yml,
// .flaskenv, cookies.txt, .netlify, .wrangler, amplify. Package policy reads the files of
// settings.
var secrets = []secret{
	// Environment files.
	{".env", "", Glob, "settings of an application, usually with passwords and tokens"},
	{".env.*", "*[-_.]" + templates, Glob, "an environment file of one machine or stage"},
	{".env[-_]*", "*[-_.]" + templates, Glob, "a copy of an environment file"},
	{".envs/", "", Glob, "a directory of environment files"},
	{"*.env", "{{*[-_.],}" + templates + ",go}.env", File, "an environment file with a name"},
	{"env.{local,prod,production,staging}", "", File, "an environment file without its dot"},
	{".dev.vars", "", Glob, "environment of Cloudflare workers"},
	{".dev.vars.*", "*." + templates, Glob, "environment of Cloudflare workers"},
	{"local.settings.json", "", File, "connection strings of Azure functions"},
	{".runtimeconfig.json", "", File, "environment of Firebase functions"},

	// Private keys and key stores, without certificates and public keys; a .pem with
	// any other name may be a key.
	{"id_{rsa,dsa,ecdsa,ecdsa_sk,ed25519,ed25519_sk,xmss}", "", Glob, "a private key of ssh"},
	{"id_{rsa,dsa,ecdsa,ed25519,xmss}[-_.]*", "{*.pub," + sources + "}", File, "a private key of ssh, or a copy of one"},
	{"?*[-_.]{rsa,dsa,ecdsa,ed25519}", "", File, "a private key of ssh"},
	{"ssh_host_*_key", "", File, "the private key of an ssh server"},
	{".ssh/", "", Glob, "keys and hosts of ssh"},
	{"*.pem", publicPEM, Glob, "most often a private key; certificates and public keys are known by their names"},
	{"*.key", "{*[-_.],}{public,pub,pubkey}.key", Glob, "a private key"},
	{"*.{p12,pfx,pkcs12,p8,pvk,ppk,jks,jceks,bks,bcfks,keystore,keytab}", "", Glob, "a store of private keys, or one"},
	{"*.{kdbx,kdb,psafe3,agekey,opvault,agilekeychain,keychain,keychain-db,1pux,ovpn}", "", Glob, "a store of passwords, or a key of a private network"},
	{"{{.,}{private,priv,secret}{,-,_}key{,.*},*[-_.]{private,priv,secret}{-,_}key}", sources, File, "a private key"},
	{"privkey*", sources, File, "a private key"},
	{"{*[-_.],}deploy[-_]key", "", File, "a private key of a forge"},
	{"*{private,secret}*.{asc,gpg}", "", File, "a private key of OpenPGP"},
	{".gnupg/", "", Glob, "keys of OpenPGP"},
	{"{secring.gpg,private-keys-v1.d}", "", Glob, "private keys of OpenPGP"},
	{".password-store/", "", Glob, "passwords of pass"},
	{"{.local/share/keyrings,.config/Bitwarden,.electrum/wallets}/", "", Glob, "passwords and keys of a desktop, and wallets"},
	{".config/{sops,age}/", "", Glob, "keys that decrypt secrets in a repository"},
	{"{wallet.dat,mnemonic.txt,seed{-,_,}phrase.txt}", "", File, "a wallet"},
	{"keystore/UTC--*", "", File, "an Ethereum account"},
	{"{wg[0-9]*.conf,ipsec.secrets,{chap,pap}-secrets,psk.txt,*.nmconnection,wpa_supplicant.conf}", "", File, "keys and passwords of networks"},

	// Clouds and what runs there.
	{".aws/{credentials,config,sso,cli}", "", Glob, "access to AWS"},
	{"{aws_credentials,.aws-credentials,.s3cfg,.boto,.passwd-s3fs,.tugboat}", "", File, "access to AWS and its like"},
	{"{rootkey,credentials,*accessKeys}.csv", "", File, "keys as AWS hands them out"},
	{".azure/", "", Glob, "access to Azure"},
	{"{accessTokens.json,azureProfile.json,msal_token_cache.*,*.publishsettings}", "", File, "access to Azure"},
	{"{.config/gcloud,.gcloud,.gcp}/", "", Glob, "access to Google Cloud"},
	{"{application_default_credentials.json,access_tokens.db,credentials.db}", "", File, "access to Google Cloud"},
	{"{*[-_.],}{service,svc}{,-,_}account*.json", "*[-_.]" + templates + ".json", File, "the key of a service account"},
	{"*serviceAccount*.json", "*[-_.]" + templates + ".json", File, "the key of a service account"},
	{"*firebase-adminsdk*.json", "", File, "the key of a Firebase service account"},
	{"{client_secret,gcp-key,gha-creds-}*.json", "*[-_.]" + templates + ".json", File, "credentials of Google"},
	{"{sa,key,{*[-_.],}sa[-_]key}.json", "", File, "the key of a service account, as in most instructions"},
	{".config/{doctl,hub,gh,glab-cli,github-copilot,rclone,op,heroku,fly,flyctl,containers,hcloud,scw,stripe,ngrok,netlify,solana,wandb,huggingface}", "", Glob, "access that a command line tool keeps"},
	{".{kube,oci,bluemix,aliyun,tencentcloud,fly,linode-cli,doctl,minikube,talos,openstack,hcloud,railway,stripe,jfrog,snowsql,snowflake,huggingface,ngrok2,doppler,okta,tsh}/", "", Glob, "access that a command line tool keeps"},
	{"{kubeconfig,kube[-_.]config,*[-_]kubeconfig,*.kubeconfig}{,.yaml,.yml,.json,.conf}", "", Glob, "access to a Kubernetes cluster"},
	{"kubeconfig[-_.]*", sources, File, "access to a Kubernetes cluster"},
	{"{{,.}talosconfig,k3s.yaml,kubelet.conf,kubernetes/admin.conf}", "", File, "access to a Kubernetes cluster"},
	{"{clouds.yaml,secure.yaml,{*[-_.],}openrc.sh}", "", File, "access to OpenStack"},
	{".config/configstore/firebase-tools.json", "", File, "access to Firebase"},
	{".docker/config.json", "", File, "access to registries"},
	{"{.dockercfg,.dockerconfigjson}", "", File, "access to registries"},
	{"*.tfstate", "", Glob, "state of Terraform, with all values in clear"},
	{"*.tfstate.*", "", Glob, "state of Terraform"},
	{"*.tfvars{,.json}", "{*[-_.],}" + templates + ".tfvars{,.json}", Glob, "values for Terraform, often secret"},
	{"{.terraformrc,terraform.rc,credentials.tfrc.json}", "", File, "tokens of Terraform"},
	{".terraform.d/", "", Glob, "tokens of Terraform"},
	{".pulumi/credentials.json", "", File, "tokens of Pulumi"},
	{"{.,}vault{-,_}pass{,word}{,[-_]file}{,.*}", sources, File, "the password of an Ansible vault"},
	{"{group_vars,host_vars}/**/vault*", "", File, "variables of Ansible that are meant to be secret"},
	{"{.ansible/vault,.chef/knife.rb}", "", Glob, "keys of Ansible and Chef"},
	{"{.vault-token,encrypted_data_bag_secret,rclone.conf}", "", File, "tokens and keys of tools"},
	{"{.databrickscfg,.dbt/profiles.yml,.mc/config.json,.sentryclirc,sentry.properties,.supabase/access-token,.vercel/auth.json,.wrangler/config/default.toml}", "", File, "access that a command line tool keeps"},

	// Package managers, forges, databases and models.
	{"{.pypirc,.netrc,_netrc,.git-credentials,.gitcookies}", "", Glob, "passwords and tokens for servers"},
	{"{.npmrc,.yarnrc,.pypirc,.netrc,_netrc,.git-credentials,.pgpass,.my.cnf,.htpasswd}.*", "{.yarnrc.yml,*." + templates + "}", File, "a copy of a file with tokens"},
	{"{.gem/credentials,.cargo/credentials{,.toml}}", "", Glob, "tokens of package registries"},
	{"{.m2/settings{,-security},.mvn/settings,maven-settings}.xml", "", File, "passwords of Maven"},
	{"{/,{.composer,composer,.codex}/}auth.json", "", File, "tokens of Composer, and of Codex"},
	{"{{pypoetry,.poetry}/auth.toml,.pause,.hex/hex.config}", "", File, "tokens of package registries"},
	{"{.pgpass,pgpass.conf,.my.cnf,.mylogin.cnf,.htdigest,proftpdpasswd,{*[-_.],}htpasswd,jmxremote.password,tomcat-users.xml}", "", File, "passwords of databases and servers"},
	{"{.ftpconfig,sftp-config.json,.remote-sync.json,.vscode/{s,}ftp.json}", "", File, "passwords of file transfers"},
	{".idea/{WebServers.xml,dataSources.local.xml,dataSources/}", "", Glob, "passwords that an editor keeps"},
	{"{sitemanager,recentservers,filezilla}.xml", "", File, "passwords of FileZilla"},
	{"{.authinfo,.authinfo.gpg,.msmtprc,.fetchmailrc,.mbsyncrc,.offlineimaprc,.lftp/bookmarks,.curlrc,.wgetrc,.sshpass}", "", File, "passwords of mail and transfers"},
	{"{*http-client.private.env.json,*.postman_environment.json}", "", File, "variables of HTTP clients, with tokens"},
	{"{{.claude/,}.credentials.json,.claude.json,.gemini/oauth_creds.json,opencode/auth.json,kaggle.json}", "", File, "tokens of models and agents"},
	{"{.openai{,[-_.]*},.continue/config.*}", "", Glob, "tokens of models and agents"},
	{".erlang.cookie", "", File, "lets anybody run code in an Erlang cluster"},

	// Applications that keep passwords in one file.
	{"{wp-config*.php,LocalSettings.php,/configuration.php,sites/*/settings{,.local}.php,app/etc/env.php,config/app_local.php}", "wp-config-sample.php", File, "passwords of a web application"},
	{"{app/config/parameters.yml,config/initializers/secret_token.rb,*.secret.exs,local_settings.py}", "", File, "passwords and keys of a web application"},
	{"{appsettings.{Local,Production}.json,connectionStrings.{json,config},application-{local,secret,secrets}.{properties,yml,yaml}}", "", File, "passwords and connection strings of an application"},
	{"{key,keystore,signing}.properties", "", File, "passwords of the keys that sign an application"},

	// Files with secret, token or the like in their names.
	{"/{secret,credentials}/**", sources, File, "a directory that is named so"},
	{".{secrets,secret,private}/", "", Glob, "a directory that is named so"},
	{".{secrets,secret}{,.*}", "{.secrets.baseline,*." + templates + "}", File, "a file that is named so"},
	{"secrets/**", sources, File, "a directory that is named so"},
	{"{*[-_.],}{secret,secrets,credential,credentials}.{json,yml,yaml,toml,ini,env,xml,txt,properties,conf,cfg}", "", File, "a file that is named so"},
	{"{.,*[-_.],}{secret,credential,credentials}", "", File, "a file that is named so"},
	{"{{.,*[-_.],}{token,tokens},{.,}{api-key,api_key,apikey}}", "", File, "a file that is named so"},
	{"{password,passwords,passwd,token,tokens,apikey,api_key,pat}.txt", "", File, "a file that is named so"},
	{"{{password,passwords}.csv,token.{json,pickle},{access,refresh,auth,bearer}[-_]token.{json,txt}}", "", File, "a file that is named so"},
	{"{api{,-,_}key{,s}.{json,yml,yaml,toml,txt},oauth{,2}[-_]{token,tokens,creds,credentials,secret,secrets}.json}", "", File, "a file that is named so"},
	{"etc/{shadow,gshadow,security/opasswd}{,-}", "", File, "hashes of passwords"},

	// Histories hold typed text, also text typed by mistake.
	{".*_history", "", Glob, "what was typed, also by mistake"},
	{"{.history,.zhistory,.histfile,.Rhistory,fish_history,.viminfo}", "", Glob, "what was typed, also by mistake"},
}

// settings are files of tools that hold credentials in some projects, and in most only
// settings that the tools need.
var settings = []secret{
	{".envrc", "", Glob, "exports of direnv, often tokens"},
	{".envrc.*", "*." + templates, Glob, "exports of direnv"},
	{"{.npmrc,.yarnrc{,.yml},.pnpmrc,.condarc,pip.conf}", "", Glob, "may hold tokens of registries"},
	{".pip/", "", Glob, "may hold tokens of registries"},
	{".bundle/config", "", File, "may hold passwords of gem servers"},
	{".gradle/gradle.properties", "", File, "may hold passwords of repositories and signing keys"},
	{"nuget.config", "", File, "may hold passwords of package sources"},
	{"local.properties", "", File, "may hold keys of the machine that it is on"},
	{"{.mcp.json,.cursor/mcp.json,.aider.conf.yml}", "", File, "may hold tokens of models and tools"},
}

// Reason returns, for a rule of a preset, what the files hold or what executes them,
// for people. It returns "" for other rules.
func (r Rule) Reason() string {
	if r.Source == anyExecuted || r.Source == someExecuted {
		return reasonExecuted(&r)
	}
	if r.Source == newDotName {
		return "a new name with a dot, under which a program of the host may look for settings; what ordinary tools write can be made"
	}
	if r.Priority != PrioritySecret || r.NotBelow != packages {
		return ""
	}
	for _, list := range [][]secret{secrets, settings} {
		for _, s := range list {
			if s.pattern == r.Pattern && s.except == r.Except {
				return s.reason
			}
		}
	}
	return ""
}
