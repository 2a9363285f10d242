package perm

import (
	"errors"
	"strings"
	"testing"
)

// hiddenFiles hold secrets in real projects and home directories.
const hiddenFiles = `
.env .env.local .env.production .env.development.local .env.bak .env~ .env.vault .env.test a/b/.env .env-prod .env_old prod.env docker/db.env
.envs/.production/.django .dev.vars .dev.vars.staging local.settings.json .env.d/x
id_rsa id_dsa id_ecdsa id_ed25519 id_ed25519_sk deploy/id_rsa id_rsa.bak id_rsa_deploy id_ed25519-work deploy_rsa github_ed25519 .ssh/config .ssh/known_hosts .ssh/id_rsa.pub
ssh_host_ed25519_key server.key tls/tls.key ca.key key.pem privkey.pem server.pem AuthKey_ABC123.p8 SERVER.PEM
store.p12 cert.pfx app.jks release.keystore putty.ppk pass.kdbx vault.psafe3 http.keytab vpn.ovpn private_key private-key.txt privatekey.json secret_key
.gnupg/secring.gpg .gnupg/private-keys-v1.d/ABC.key secring.gpg .password-store/mail.gpg .config/sops/age/keys.txt wallet.dat config/master.key
.aws/credentials .aws/config .aws/sso/cache/x.json aws_credentials .s3cfg .boto rootkey.csv bob_accessKeys.csv credentials.csv
.azure/azureProfile.json .azure/msal_token_cache.bin sub.publishsettings .config/gcloud/credentials.db .config/gcloud/application_default_credentials.json application_default_credentials.json
service-account.json service_account.json serviceAccount.json serviceAccountKey.json prod-service-account.json my-serviceAccountKey.json proj-firebase-adminsdk-x1.json client_secret_123.json gha-creds-1.json
.config/gh/hosts.yml .config/hub/x .kube/config .kube/cache/x kubeconfig kubeconfig.yaml prod.kubeconfig my-kubeconfig.yml .docker/config.json .dockercfg .dockerconfigjson
terraform.tfstate terraform.tfstate.backup env/prod.tfstate .terraform/terraform.tfstate terraform.tfvars prod.auto.tfvars x.tfvars.json .terraformrc credentials.tfrc.json .terraform.d/credentials.tfrc.json
.vault_pass .vault_pass.txt vault-password vault_password.txt .vault-token .pulumi/credentials.json
.npmrc packages/a/.npmrc .yarnrc.yml nuget.config local.properties .mcp.json .pypirc .netrc _netrc .git-credentials .cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings.xml .m2/settings-security.xml
.composer/auth.json auth.json .codex/auth.json pip.conf .pip/pip.conf .bundle/config .gradle/gradle.properties .nuget/NuGet.Config .condarc .envrc
.pgpass .my.cnf .mylogin.cnf .htpasswd proftpdpasswd .ftpconfig sftp-config.json .vscode/sftp.json .idea/WebServers.xml .idea/dataSources.local.xml recentservers.xml
.claude/.credentials.json .gemini/oauth_creds.json
secrets/db.txt secrets/a/b.yaml .ENV Secrets.yml server.key.bak .secrets/x .secrets .secret .secrets.toml deploy/secrets/db_password.txt services/api/secrets/prod/key.json secret/token credentials/db
secrets.yml secrets.json config/secrets.yml config/credentials.json credentials.xml credentials aws/credentials db-secret.yaml app_secrets.json .credentials .credentials.json .token passwords.txt token.txt token.json
.bash_history .zsh_history .python_history .node_repl_history .psql_history .mysql_history .history .zhistory .Rhistory fish_history .viminfo
`

// openFiles only look like secrets.
const openFiles = `
.env.example .env.sample .env.template .env.dist .env.defaults .env.default .env.local.example .env.production.sample .env.schema a/.env.example .env-example example.env prod.example.env sample.env env.ts env.d.ts .environment environment.yml
.dev.vars.example .envs.md .secrets.baseline .envoy/config.yaml
id_rsa.pub id_ed25519.pub deploy/id_rsa.pub id_rsa-cert.pub id_rsa.go rsa.go crypto/rsa/rsa.go rsa ed25519 valid_rsas
cacert.pem cert.pem server-cert.pem certs/cacert.pem ca-bundle.pem ca-certificates.pem ca.pem rds-combined-ca-bundle.pem global-bundle.pem chain.pem fullchain.pem public.pem jwt_public.pem server-ca.pem dhparam.pem ca.crt server.crt cert.cer public.key jwt.public.key
private_key.go private_key_test.py privkey.rs keystore.go keys.go key.go api_key.py private.go
internal/secrets/secrets.go internal/secrets/store_test.go pkg/secrets/doc.md src/secrets/index.ts crates/secrets/Cargo.toml crates/secrets/src/lib.rs lib/secrets/__init__.py packages/secrets/package.json secret/secret.go secrets/main.go credentials/provider.go secretsmanager/client.go modules/secrets/main.tf
secret.go secrets.py secrets.ts credentials.go credentials.py credentials_test.go secret_test.go tokens.go token.go tokens.json password.go passwords_controller.rb
service_account.go service-account.md service_account.example.json serviceaccount.yaml serviceaccounts.json.md service-account-sample.json
kubeconfig.go kubeconfig_test.go kube/config config config.json docker/config.json Dockerfile docker-compose.yml .dockerignore .docker/Dockerfile
main.tf variables.tf terraform.tfvars.example example.tfvars prod.example.tfvars .terraform.lock.hcl .terraform/modules/modules.json
package.json yarn.lock .nvmrc .python-version Cargo.toml .cargo/config.toml .m2/wrapper.properties locales/en/auth.json composer.json settings.xml gradle.properties go.env Gemfile
.git/config .git/HEAD .git/hooks/pre-commit .gitignore .gitattributes .github/workflows/ci.yml .gitmodules .aws/task-definition.json .vscode/settings.json .idea/workspace.xml .claude/settings.json
go.env src/crypto/tls/testdata/example-key.pem src/crypto/tls/testdata/example-cert.pem src/crypto/x509/testdata/policy_root.pem src/crypto/x509/platform_root_cert.pem
node_modules/public-encrypt/test/test_rsa_privkey.pem vendor/a/.env lib/python3/site-packages/certifi/private.key test/fixtures/id_rsa node_modules/a/.npmrc
config/database.yml application.yml appsettings.Development.json web.config Pulumi.dev.yaml etc/passwd seed.txt oauth.json app.mobileprovision
history.go HISTORY.md .historyrc README.md main.go a/b/c Makefile
`

func TestPresetsOnRealNames(t *testing.T) {
	check := func(name, files string, dir bool, want Level) {
		t.Helper()
		p := mustCompile(t, preset(t, name)...)
		for _, file := range strings.Fields(files) {
			if got := p.Level(file, dir); got != want {
				t.Errorf("%s: %q is %v, want %v\n%v", name, file, got, want, p.Explain(file, dir))
			}
		}
	}
	for name, base := range map[string]Level{"agent-safe": Write, "read-only": Read, "view-only": View} {
		check(name, hiddenFiles, false, None)
		for _, file := range strings.Fields(openFiles) {
			want := base
			switch file {
			case ".cargo/config.toml", ".vscode/settings.json", ".idea/workspace.xml", ".claude/settings.json":
				want = min(base, Read) // the host executes it
			}
			check(name, file, false, want)
		}
		check(name, "src secrets internal/secrets deploy/secrets a/credentials .git .config .docker node_modules certs keys", true, base)
		check(name, ".secrets .ssh .gnupg .kube .env .config/gcloud .azure", true, None)
	}
	check("full-access", hiddenFiles+openFiles, false, Write)
	settings := ".npmrc .yarnrc.yml .envrc pip.conf .bundle/config .condarc .pip/pip.conf"
	check("development", settings, false, Read)
	check("development", strings.NewReplacer(".git/config", "", ".git/hooks/pre-commit", "").Replace(openFiles), false, Write)
	p := mustCompile(t, preset(t, "development")...)
	for _, file := range strings.Fields(hiddenFiles) {
		if got := p.Level(file, false); got > Read || got == Read && p.Explain(file, false).Rule.AtMost == false {
			t.Errorf("development: %q is %v", file, got)
		}
	}
}

func TestPresets(t *testing.T) {
	presets := Presets()
	if len(presets) != 5 || presets[0].Name != DefaultPreset {
		t.Errorf("presets: %v", presets)
	}
	for _, p := range presets {
		if p.Doc == "" || !strings.HasSuffix(p.Doc, ".") || len(p.Rules) == 0 {
			t.Errorf("%s: %q, %d rules", p.Name, p.Doc, len(p.Rules))
		}
		seen := map[Rule]bool{}
		for i, r := range p.Rules {
			source := "preset " + p.Name
			rest := len(p.Rules) - i
			if n := len(AnyGitRules()); p.Git {
				if rest <= n {
					source = gitSource
				}
				rest -= n
			}
			if p.Executed && rest > 0 && rest <= len(AnyExecutedRules()) {
				source = anyExecuted
			}
			if want := map[bool]int{true: PriorityPreset, false: PrioritySecret}[i == 0]; r.Priority != want || r.Source != source {
				t.Errorf("%s: rule %v of priority %d from %q", p.Name, r, r.Priority, r.Source)
			}
			if seen[r] {
				t.Errorf("%s: rule %v twice", p.Name, r)
			}
			seen[r] = true
		}
		got, err := PresetByName(p.Name)
		if err != nil || got.Name != p.Name {
			t.Errorf("PresetByName: got p.Name %s, got.Name %v, err %v; want err == nil and got.Name == %v", p.Name, got.Name, err, p.Name)
		}
	}
	presets[0].Rules[0].Level = None
	if Presets()[0].Rules[0].Level != Write {
		t.Error("a caller can change the presets")
	}
	_, err := PresetByName("agent")
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "agent-safe, development, full-access, read-only, view-only") {
		t.Errorf("unknown preset: %v", err)
	}
}
