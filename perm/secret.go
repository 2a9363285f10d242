package perm

// A secret is a pattern of files that hold credentials; except is the pattern
// of names that only look so.
type secret struct {
	pattern, except string
	kind            Kind
}

// templates are the words that mark a file as one to be copied and filled in.
const templates = "{example,sample,template,tmpl,tpl,dist,default,defaults,schema}"

// sources are the names of source code, its packaging and its documentation,
// which talk about secrets without holding any.
const sources = "{*.{go,rs,c,cc,cpp,h,hpp,py,pyi,rb,php,pl,lua,js,jsx,mjs,cjs,ts,tsx,mts,cts,vue,svelte," +
	"java,kt,kts,scala,groovy,clj,cs,fs,vb,swift,m,mm,dart,ex,exs,erl,hs,ml,mli,nim,zig,r,jl," +
	"proto,graphql,tf,bzl,bazel,gradle,csproj,html,css,scss,md,mdx,rst,adoc}," +
	"go.{mod,sum},{package,tsconfig*}.json,Cargo.toml,pyproject.toml,setup.cfg,pom.xml,py.typed," +
	"README*,LICENSE*,BUILD,Makefile,Dockerfile,CMakeLists.txt}"

// secrets hide from every preset but full-access. Most cover a directory of
// that name too: better one revealed by hand than one forgotten.
var secrets = []secret{
	// Environment files.
	{".env", "", Glob},
	{".env.*", "*[-_.]" + templates, Glob},
	{".env[-_]*", "*[-_.]" + templates, Glob},
	{".env~", "", Glob},
	{".envs/", "", Glob},
	{"*.env", "{*[-_.],}" + templates + ".env", File},
	{".dev.vars", "", Glob},
	{".dev.vars.*", "*." + templates, Glob},
	{"local.settings.json", "", File},
	{".runtimeconfig.json", "", File},

	// Private keys and key stores. Certificates, and what is named public, are
	// none; a .pem that nothing is known of may be a key.
	{"id_{rsa,dsa,ecdsa,ecdsa_sk,ed25519,ed25519_sk,xmss}", "", Glob},
	{"id_{rsa,dsa,ecdsa,ed25519,xmss}[-_.]*", "{*.pub," + sources + "}", File},
	{"?*[-_.]{rsa,dsa,ecdsa,ed25519}", "", File},
	{"ssh_host_*_key", "", File},
	{".ssh/", "", Glob},
	{"*.{pem,PEM}", publicPEM, Glob},
	{"*.{key,KEY}", "{*[-_.],}{public,pub,pubkey}.key", Glob},
	{"*.{p12,P12,pfx,PFX,pkcs12,p8,pvk,ppk,jks,jceks,bks,bcfks,keystore,keytab}", "", Glob},
	{"*.{kdbx,kdb,psafe3,agekey,opvault,agilekeychain,keychain,keychain-db,1pux,ovpn}", "", Glob},
	{"{private,priv,secret}{,-,_}key{,.*}", sources, File},
	{"privkey*", sources, File},
	{".gnupg/", "", Glob},
	{"{secring.gpg,private-keys-v1.d}", "", Glob},
	{".password-store/", "", Glob},
	{".config/{sops,age}/", "", Glob},
	{"wallet.dat", "", File},

	// Clouds and what runs there.
	{".aws/{credentials,config,sso,cli}", "", Glob},
	{"{aws_credentials,.s3cfg,.boto,.passwd-s3fs,.tugboat}", "", File},
	{"{rootkey,credentials,*accessKeys}.csv", "", File},
	{".azure/", "", Glob},
	{"{accessTokens.json,azureProfile.json,msal_token_cache.*,*.publishsettings}", "", File},
	{".config/gcloud/", "", Glob},
	{"{application_default_credentials.json,access_tokens.db,credentials.db}", "", File},
	{"{*[-_.],}{service,svc}{,-,_}account*.json", "*[-_.]" + templates + ".json", File},
	{"{*[-_.],}serviceAccount*.json", "*[-_.]" + templates + ".json", File},
	{"*firebase-adminsdk*.json", "", File},
	{"{client_secret,gcp-key,gha-creds-}*.json", "*[-_.]" + templates + ".json", File},
	{".config/{doctl,hub,gh,glab-cli,github-copilot,rclone,op,heroku,fly,flyctl,containers}/", "", Glob},
	{".{kube,oci,bluemix,aliyun,tencentcloud,fly,linode-cli,doctl,minikube}/", "", Glob},
	{"{kubeconfig,*[-_.]kubeconfig}{,.yaml,.yml,.json,.conf}", "", Glob},
	{"kubeconfig[-_.]*", sources, File},
	{"{.,}talosconfig", "", File},
	{".docker/config.json", "", File},
	{"{.dockercfg,.dockerconfigjson}", "", File},
	{"*.tfstate", "", Glob},
	{"*.tfstate.*", "", Glob},
	{"*.tfvars{,.json}", "{*[-_.],}" + templates + ".tfvars{,.json}", Glob},
	{"{.terraformrc,terraform.rc,credentials.tfrc.json}", "", File},
	{".terraform.d/", "", Glob},
	{".pulumi/credentials.json", "", File},
	{"{.,}vault{-,_}pass{,word}{,.*}", sources, File},
	{"{.vault-token,encrypted_data_bag_secret,rclone.conf}", "", File},

	// Package managers, forges and databases.
	{"{.pypirc,.netrc,_netrc,.git-credentials,.gitcookies}", "", Glob},
	{"{.gem/credentials,.cargo/credentials{,.toml}}", "", Glob},
	{".m2/settings{,-security}.xml", "", File},
	{"{/,{.composer,composer,.codex}/}auth.json", "", File},
	{"{pypoetry/auth.toml,.pause,.hex/hex.config}", "", File},
	{"{.pgpass,pgpass.conf,.my.cnf,.mylogin.cnf,.htpasswd,.htdigest,proftpdpasswd}", "", File},
	{"{.ftpconfig,sftp-config.json,.remote-sync.json,.vscode/{s,}ftp.json}", "", File},
	{".idea/{WebServers.xml,dataSources.local.xml,dataSources/}", "", Glob},
	{"{sitemanager,recentservers,filezilla}.xml", "", File},
	{"{.claude/,}.credentials.json", "", File},
	{".gemini/oauth_creds.json", "", File},

	// Whatever calls itself secret.
	{"/secrets/", "", Glob},
	{"/{secret,credentials}/**", sources, File},
	{".{secrets,secret,private}/", "", Glob},
	{".{secrets,secret}{,.*}", "{.secrets.baseline,*." + templates + "}", File},
	{"secrets/**", sources, File},
	{"{*[-_.],}{secret,secrets,credential,credentials}.{json,yml,yaml,toml,ini,env,xml,txt,properties,conf,cfg}", "", File},
	{"{.,}{credential,credentials}", "", File},
	{"{.token,.tokens,.api-key,.api_key,.apikey}", "", File},
	{"{password,passwords,passwd,token,tokens,apikey,api_key}.txt", "", File},
	{"token.{json,pickle}", "", File},

	// Histories hold what was typed, also by mistake.
	{".*_history", "", Glob},
	{"{.history,.zhistory,.histfile,.Rhistory,fish_history,.viminfo}", "", Glob},
}

// publicPEM are the names of bundles and chains of certificates and of public
// keys.
const publicPEM = "{{cacert,cacerts,ca,ca-cert,ca-certs,ca_cert,ca-certificates,ca-bundle,ca_bundle,tls-ca-bundle," +
	"rootca,root-ca,rootCA,root,roots,chain,fullchain,global-bundle}," +
	"*[-_.]{ca,ca-bundle,ca_bundle,ca-cert,ca_cert,cacert,chain,fullchain}," +
	"{*[-_.],}{public,pub,pubkey,public-key,public_key},dhparam*,dh[0-9]*}.pem"

// settings are files of tools that hold credentials in some projects and plain
// settings, which the tools need, in most.
var settings = []secret{
	{".envrc", "", Glob},
	{".envrc.*", "*." + templates, Glob},
	{"{.npmrc,.yarnrc,.condarc,pip.conf,.pip/}", "", Glob},
	{".bundle/config", "", File},
	{".gradle/gradle.properties", "", File},
	{"{.nuget,.config/NuGet,NuGet}/NuGet.Config", "", File},
}
