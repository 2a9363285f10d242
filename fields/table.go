package fields

// Table has a row for each setting of a sandbox and of the command in it. Two rows of a name are
// for different commands. It is constant data: the linker lays it out, and no start of a program
// pays for it.
var Table = [...]Field{
	// Codebase and rules.
	{
		Name: "codebase", Record: "codebasePath", On: sandbox, Group: Rules, Names: Directories, Path: WholePath,
		Bound: Bound{How: Never}, Pool: Claim, API: true,
		Help: "directory to show, filtered (default: the repository or workspace around the " +
			"current directory, else that)",
	},
	{
		Name: "codebase", Record: "codebasePath", On: Serve, Group: Rules, Names: Directories, Path: WholePath, Pool: Claim,
		Help: "directory to show at the mount point; without it that is empty",
	},
	{
		Name: "no-codebase", Kind: Truth, On: sandbox, Once: true, Group: Rules,
		Help: "show no directory: the mount point is empty",
	},
	{
		Name: "mount-point", Record: "mountPoint", On: sandbox, Group: Rules, Bound: Bound{How: Free},
		Help: "where the codebase appears (default: at its own path; /workspace with --image, --rootfs or " +
			"--no-codebase)",
	},
	{
		Name: "mount-point", Record: "mountPoint", Default: "/workspace", On: Serve, Group: Rules,
		Help: "where the codebase appears",
	},
	{
		Name: "cow", Record: "cow", Kind: Truth, On: sandbox | Serve, Group: Rules, Pool: Cold, API: true,
		Values: []Value{{Name: "true"}, {Name: "false"}}, Bound: Bound{How: Ranked, Normal: "false"},
		Help: "keep what the sandbox changes in the codebase beside it, until it is applied or discarded",
	},
	{
		Name: "apply", Default: "ask", On: Run | Learn, Group: Rules,
		Values: []Value{{"ask", "at a terminal"}, {Name: "on-success"}, {Name: "always"}, {Name: "never"}},
		Help: "with --cow, what becomes of the changes: on-success, always or never apply them; ask: at a " +
			"terminal. What is not applied is kept",
	},
	{
		Name: "worktree", On: Run | Learn | Create | Shell, Group: Rules,
		Bound: Bound{Because: "it makes branches and working trees in your repository"},
		Help: "work on BRANCH, made if it does not exist, in a working tree of its own; the rest of the " +
			"codebase is read-only",
	},
	{
		Name: "preset", Record: "permissions", On: sandbox | Serve | Explain | SetRules, Group: Rules, Names: Presets,
		Pool: Claim, API: true,
		Values: []Value{
			{Name: "view-only"}, {Name: "read-only"}, {Name: "agent-safe"}, {Name: "development"}, {Name: "full-access"},
		},
		Bound: Bound{
			How: Ranked, Normal: "agent-safe",
			Note: "your preset, or one before it: `view-only`, `read-only`, `agent-safe`, `development`, " +
				"`full-access`. Without yours: up to `agent-safe`. Not beside a policy file of yours",
		},
		Help: "rules to start from: see wolffia policy presets (default agent-safe)",
	},
	{
		Name: "policy", Record: "permissions", On: sandbox | Serve | Explain | SetRules, Group: Rules,
		Names: YAMLFiles, Path: WholePath, Pool: Claim,
		Bound: Bound{Because: "wolffia trust does not show what that file says; use rules and reveal"},
		Help:  "file with rules: see wolffia policy check",
	},
	{
		Name: "rule", Key: "rules", Record: "permissions", Kind: List,
		On: sandbox | Serve | Explain | SetRules | AddRules, Group: Rules, Pool: Claim, API: true,
		Bound: Bound{
			How: Ordered,
			Note: "anything: they rank below all rules of yours (priority 50; a policy file has 100, `--rule` " +
				"and your `rules` 200) and give at most what your preset gives",
		},
		Help: "add a rule: PATTERN=none|view|ask|read|write; it does not reveal secrets",
	},
	{
		Name: "reveal", Record: "permissions", Kind: List, On: sandbox | Serve | Explain | SetRules | AddRules,
		Group: Rules, Pool: Claim,
		Bound: Bound{
			How: Ordered, Widens: true,
			Note: "outranks the preset's secrets (1500), not your reveals (2000). What your `rules`, `--rule` or " +
				"policy file give less than `write` then limits it; also where a more specific rule of yours " +
				"would give more",
		},
		Help: "add a rule that outranks all, secrets included: PATTERN=LEVEL",
	},
	{
		Name: "filter", Record: "filter", Default: "auto", On: sandbox | Serve | Explain, Group: Rules,
		Values: []Value{
			{"fuse", "at each access"}, {Name: "auto"}, {"none", "the rules grant all"}, {"static", "masks, made at the start"},
		},
		Bound: Bound{How: Ranked, Normal: "auto"},
		Help: "what enforces the rules: fuse; static: masks what is there at the start; none: nothing, if the " +
			"rules grant all; auto: fuse, or none where FUSE is missing and the rules grant all",
	},
	{
		Name: "ask", Record: "ask", Kind: List, Commas: true, On: sandbox | Serve, Group: Rules,
		Values: []Value{
			{"network", "a connection that no rule allows"},
			{"write", "a change of what is read-only"},
			{"reveal", "the content of what a rule =ask shows by name"},
			{Name: "all"},
		},
		Help: "ask instead of refusing: network, write, reveal or all, with commas; who answers: the terminal, an MCP client, " +
			"wolffia asks, the console; without an answer the access is refused",
	},
	{
		Name: "ask-limit", Record: "askLimitNs", Kind: Duration, On: sandbox | Serve, Group: Rules,
		Help: "refuse what is asked for and not answered for this long (default: 2m)",
	},
	{
		Name: "audit", On: Run | Learn, Group: Rules, Path: WholePath,
		Bound: Bound{Because: "the file is overwritten"},
		Help:  "write what was denied to this file, as wolffia audit --json prints it",
	},

	// System and mounts.
	{
		Name: "runtime", Record: "runtime", On: sandbox | Serve | Build, Group: System, Names: Backends, API: true,
		Values: []Value{{Name: "gvisor"}, {Name: "bwrap"}, {Name: "docker"}, {Name: "kubernetes"}}, Bound: Bound{How: Ranked, Normal: "bwrap"},
		Help: "what isolates: bwrap, gvisor, docker or kubernetes (default bwrap)",
	},
	{
		Name: "platform", Record: "platform", On: sandbox | Serve, Group: System,
		Values: []Value{{Name: "systrap"}, {"kvm", "needs /dev/kvm"}}, Bound: Bound{How: Same},
		Help: "how gvisor catches system calls: systrap or kvm (default systrap)",
	},
	{
		Name: "kube-guest", Record: "kubernetes", On: sandbox | Serve, Group: System, Names: NoNames,
		Bound: Bound{Because: "its program watches over what runs in the pod"},
		Help:  "with --runtime kubernetes: image that has wolffia-guest",
	},
	{
		Name: "kube-context", Record: "kubernetes", On: sandbox | Serve, Group: System, Names: NoNames,
		Bound: Bound{Because: "the cluster would be one of the project's choice, with your rights there"},
		Help:  "with --runtime kubernetes: context of kubectl's configuration (default: the current one)",
	},
	{
		Name: "kube-namespace", Record: "kubernetes", On: sandbox | Serve, Group: System, Names: NoNames,
		Bound: Bound{Because: "the namespace decides what your rights, quotas and networks are"},
		Help:  "with --runtime kubernetes: namespace of the pod (default: the context's)",
	},
	{
		Name: "kube-runtime-class", Record: "kubernetes", On: sandbox | Serve, Group: System, Names: NoNames,
		Bound: Bound{Because: "it decides how the pod is isolated"},
		Help:  "with --runtime kubernetes: RuntimeClass of the pod, such as gvisor or kata",
	},
	{
		Name: "root", Record: "root", Kind: Truth, On: sandbox | Serve, Group: System,
		Bound: Bound{Because: "programs would be root inside, and reach more of the host's kernel"},
		Help: "be root inside, with further users: apt-get install, useradd, chown and su work; on the host " +
			"these are you and your subordinate ids; without --image over the host's own system, of Debian or Ubuntu",
	},
	{
		Name: "user", Letter: "u", Record: "runAs", On: sandbox, Once: true, Group: System,
		Help: "with --root: run commands as this user of the image: NAME or UID, also with :GROUP (default: the image's own)",
	},
	{
		Name: "rootfs", Record: "rootfs", On: sandbox | Serve, Group: System, Names: Directories, Path: WholePath,
		Bound: Bound{Because: "the sandbox would run on a directory of the project's choice"},
		Help:  "directory with the system to run on (default: the host's system directories)",
	},
	{
		Name: "image", Record: "image", On: sandbox | Serve, Group: System, Names: Images,
		Bound: Bound{How: Same, Widens: true},
		Help:  "image to run on, pulled if it is not there: see wolffia image --help",
	},
	{
		Name: "pull", Default: "missing", On: sandbox | Serve | Build, Group: System,
		Values: []Value{{Name: "missing"}, {Name: "always"}, {Name: "never"}},
		Help:   "when to pull the image: missing, always or never",
	},
	{
		Name: "mount", Record: "mounts", Kind: List, On: sandbox | Serve, Group: System, Path: MountPath,
		Bound: Bound{Because: "it shows a directory without rules, of the host or of the codebase"},
		Help:  "show another host directory, unfiltered: SRC[:DST][:ro|rw][:unfiltered], read-only unless rw",
	},
	{
		Name: "volume", Record: "volumes", Kind: List, On: sandbox | Serve, Group: System, Names: Volumes,
		Bound: Bound{Because: "a volume may be another project's"},
		Help:  "show a directory that stays, writable and made if it is missing: NAME:PATH[:ro]",
	},
	{
		Name: "cache", Record: "volumes", Kind: List, Commas: true, On: sandbox | Serve, Group: System, Names: Caches,
		Bound: Bound{How: Same, Refuse: "shared", Because: "other projects use a shared cache"},
		Help: "keep caches for later sandboxes: go,npm,pnpm,yarn,pip,uv,cargo,maven,gradle,ccache, or auto for " +
			"those the project has use for, and sandboxes with the same rights (default auto; none with --home " +
			"and for serve); NAME:shared for all codebases together",
	},
	{
		Name: "home", Record: "volumes", On: sandbox | Serve, Hidden: Pooling | Serve, Group: System, Names: Homes,
		Bound: Bound{Because: "a home may have another project's credentials"},
		Help:  "use a home directory of this name that stays",
	},
	{
		Name: "toolchains", Record: "mounts", On: sandbox | Serve, Group: System, Names: Toolchains,
		Bound: Bound{How: Same},
		Help: "what of PATH to show, read-only: auto, none, or names as wolffia doctor has them: go,node " +
			"(default auto; none with --image, --rootfs and for serve)",
	},
	{
		Name: "no-git-config", Kind: Truth, Record: "git", On: sandbox, Group: System,
		Help: "do not give git inside your name, address and settings",
	},
	{
		Name: "git-credentials", Record: "gitCredentials", Kind: Truth, On: sandbox, Group: System,
		Bound: Bound{Because: "the sandbox could use your passwords"},
		Help:  "copy passwords and tokens in a repository's .git/config into the sandbox's",
	},
	{
		Name: "no-git-monitor", Record: "noGitMonitor", Kind: Truth, On: sandbox, Group: System, Pool: Claim,
		Help: "have git inside look at each file, rather than ask wolffia what has changed",
	},

	// Network.
	{
		Name: "network", Record: "network", Default: "none", On: sandbox | Serve | Build, Group: Network,
		Values: []Value{
			{"none", "only the sandbox's own loopback"},
			{"filtered", "the names of --allow-host"},
			{"host", "the host's network, all of it"},
		},
		Bound: Bound{
			How: Ranked,
			Note: "your value or less: `none`, `filtered`, `host`. Without yours: any, but with an `allow-host` " +
				"of yours at most `filtered`",
		},
		Help: "none, filtered (the default with --allow-host and the like) or host: see wolffia help network",
	},
	{
		Name: "allow-host", Record: "egress", Kind: List, On: sandbox | Serve | Allow | Build, Group: Network,
		Names: HostLists, Pool: Claim,
		Bound: Bound{
			How: Hosts, Widens: true,
			Note: "if you have `network: host`, or neither `network` nor `allow-host`: anything. Else only what " +
				"your `allow-host` has",
		},
		Help: "let the sandbox reach a host by name: NAME[:PORTS], *.DOMAIN[:PORTS], or a list such as @npm (see " +
			"wolffia network lists); with @private behind it also at private addresses, as a company's mirror has",
	},
	{
		Name: "mirror", Key: "mirrors", Record: "egress", Kind: List, Pairs: true, On: sandbox | Serve, Group: Network,
		Names: NoNames, Pool: Claim,
		Bound: Bound{Because: "it names hosts that your lists then allow"},
		Help: "allow this host, too, wherever the list is allowed: LIST=NAME[:PORTS], as --allow-host has it, " +
			"such as npm=registry.example@private",
	},
	{
		Name: "add-host", Record: "egress", Kind: List, On: sandbox | Serve | Allow | Build, Group: Network, Names: NoNames,
		Pool:  Claim,
		Bound: Bound{Because: "the address may be a service of this host or of its network"},
		Help:  "let the sandbox reach this very address by a name, also one of this host or its network: NAME:ADDR",
	},
	{
		Name: "no-sni-check", Record: "egress", Kind: List, On: sandbox | Serve | Allow | Build, Group: Network,
		Names: NoNames, Pool: Claim,
		Bound: Bound{Because: "connections for the name could then reach other hosts at its address"},
		Help:  "do not compare the name in TLS and HTTP with NAME, for other protocols: NAME",
	},
	{
		Name: "header", Record: "egress", Kind: List, On: sandbox | Serve | Allow | Build, Group: Network, Path: ValuePath,
		Pool:  Claim,
		Bound: Bound{Because: "it reads a file of yours and sends what it has"},
		Help:  "add a header with a secret that stays outside to requests to a host: NAME:HEADER=@FILE",
	},
	{
		Name: "upstream-proxy", Record: "egress", On: sandbox | Serve | Build, Group: Network, Pool: Claim,
		Bound: Bound{Because: "the proxy decides where connections go"},
		Help: "have an HTTP proxy of the host's network, http://HOST:PORT, make the connections of a filtered " +
			"network; it resolves the names, and only it can refuse addresses",
	},
	{
		Name: "publish", Record: "publish", Kind: List, On: sandbox, Group: Network, Names: NoNames, Pool: Cold,
		Bound: Bound{Because: "other programs would take the project's server for one of this host"},
		Help: "make a server inside reachable at a port of the host: [ADDR:]LOCAL:PORT, at 127.0.0.1 unless " +
			"ADDR is given; auto: those whose address the command of run or shell prints, as at a terminal; " +
			"none: not these",
	},
	{
		Name: "expose", Record: "expose", Kind: List, On: sandbox | Serve, Group: Network, Names: NoNames, Pool: Cold,
		Bound: Bound{Because: "a service of this host may trust whatever connects from it"},
		Help:  "let the sandbox reach a service of the host's loopback at its own: HOST_PORT[:PORT]",
	},
	{
		Name: "socket", Record: "sockets", Kind: List, On: sandbox | Serve, Group: Network, Path: MountPath, Pool: Cold,
		Bound: Bound{Because: "the program behind it acts for you"},
		Help: "let the sandbox use a unix socket of the host, such as an ssh agent's: PATH[:INSIDE] (default " +
			"INSIDE: its name in /tmp)",
	},
	{
		Name: "socket-force", Kind: Truth, On: sandbox | Serve, Group: Network,
		Bound: Bound{Because: "the sandbox could control this host"},
		Help:  "permit sockets by which the host can be controlled, such as a container engine's",
	},

	// Command and environment.
	{
		Name: "env", Letter: "e", Record: "env", Kind: List, Pairs: true, On: sandbox | Serve, Group: Process,
		Pool: Claim,
		Bound: Bound{
			How:  Named,
			Note: "`NAME=VALUE`; `NAME` alone takes a variable of yours, and needs `allow`, or the same in your file",
		},
		Help: "set a variable: K=V, or K to pass the caller's",
	},
	{
		Name: "cwd", Record: "cwd", On: sandbox, Group: Process, Bound: Bound{How: Free}, Pool: Claim,
		Help: "working directory inside; a relative one begins at the mount point (default: the current " +
			"directory if the codebase has it, else the mount point)",
	},
	{
		Name: "cwd", Record: "cwd", On: Serve, Group: Process, Pool: Claim,
		Help: "working directory inside (default: the mount point)",
	},
	{
		Name: "interactive", Letter: "i", Kind: Truth, On: Run | Learn, Group: Process,
		Help: "pass standard input also if it is not a terminal",
	},
	{
		Name: "tty", Letter: "t", Kind: Truth, On: Run | Learn, Group: Process,
		Help: "give the command our terminal (default: if standard input and output are one)",
	},
	{
		Name: "timeout", Kind: Duration, On: Run | Learn, Group: Process, Bound: Bound{How: Most},
		Help: "end the command after this time (90s, 5m): exit code 124",
	},
	{
		Name: "session", Default: "mcp", On: MCP, Once: true, Group: Process,
		Help: "the shell session in which commands run",
	},

	// Limits.
	{
		Name: "memory", Record: "resources.memory", Kind: Size, On: sandbox | Serve | Build, Group: Limits,
		Bound: Bound{How: Most},
		Help:  "how much memory may be used, such as 512m or 2g (default: no limit)",
	},
	{
		Name: "cpus", Record: "resources.cpus", Kind: Number, On: sandbox | Serve | Build, Group: Limits,
		Bound: Bound{How: Most},
		Help:  "how many processors' time may be used, such as 1.5 (default: no limit)",
	},
	{
		Name: "pids", Record: "resources.pids", Kind: Whole, On: sandbox | Serve | Build, Group: Limits,
		Bound: Bound{How: Most},
		Help:  "how many processes and threads there may be at once (default: no limit)",
	},
	{
		Name: "disk", Record: "resources.disk", Kind: Size, On: sandbox | Serve, Group: Limits, Bound: Bound{How: Most},
		Help: "how much may be added to the codebase, such as 512m or 2g (default: no limit)",
	},
	{
		Name: "limits", Record: "resources.bestEffort", Default: "strict", On: sandbox | Serve | Build, Group: Limits,
		Values: []Value{{"strict", "refuse what cannot be kept exactly"}, {"best-effort", "keep limits as far as can be"}},
		Bound:  Bound{How: Ranked, Normal: "strict"},
		Help: "strict: refuse limits of memory, cpus and pids that cannot be kept exactly; best-effort: keep " +
			"them as far as can be",
	},

	// Lifetime.
	{
		Name: "ttl", Record: "ttlNs", Kind: Duration, On: sandbox | Serve, Group: Lifetime, Bound: Bound{How: Most},
		Pool: Claim,
		Help: "destroy the sandbox this long after it was made (90s, 5m, 7d; default: never)",
	},
	{
		Name: "idle-timeout", Record: "idleTimeoutNs", Kind: Duration, On: sandbox | Serve, Group: Lifetime,
		Bound: Bound{How: Most}, Pool: Claim,
		Help: "destroy the sandbox when it was not used for this long (default: never)",
	},
	{
		Name: "idle-action", Record: "idleAction", Default: "destroy", On: sandbox&^Pooling | Serve, Group: Lifetime,
		Values: []Value{
			{"destroy", "remove it"},
			{"stop", "end its processes"},
			{"pause", "have its processes stand still; its next use resumes it"},
			{"hibernate", "keep its memory on the disk and end its processes; its next use brings them back"},
		},
		Bound: Bound{How: Ranked, Normal: "destroy"},
		Help:  "at the end of the idle timeout: destroy, stop, or pause or hibernate until its next use",
	},

	// Names.
	{
		Name: "name", Record: "name", On: sandbox | Serve, Hidden: MCP | Pooling | Serve, Group: Naming,
		Bound: Bound{How: Free}, Pool: Claim,
		Help: "name the sandbox",
	},
	{
		Name: "label", Record: "labels", Kind: List, Pairs: true, On: sandbox | Serve, Group: Naming,
		Bound: Bound{How: Free}, Pool: Claim,
		Help: "label the sandbox: K=V",
	},
	{
		Name: "owner", Record: "labels", On: sandbox | Serve, Hidden: Pooling | Serve, Group: Naming, Pool: Claim,
		Bound: Bound{Because: "the service trusts it"},
		Help:  "whose sandbox it is, for wolffia scan and the service: ORG/PROJECT/USER",
	},
	{
		Name: "sandbox", On: MCP, Once: true, Group: Naming, Names: Sandboxes,
		Help: "use the sandbox of this name, which stays; made if it does not exist (default: one that ends with " +
			"the client)",
	},
	{
		Name: "resume", Kind: Truth, On: MCP, Once: true, Group: Naming, Help: "resume the sandbox if it is paused",
	},

	// Pool.
	{
		Name: "size", Letter: "n", Kind: Whole, Default: "2", On: Pooling, Once: true, Group: Pools,
		Help: "how many pooled sandboxes to keep",
	},
	{
		Name: "idle", Default: "30m", On: Pooling, Once: true, Group: Pools,
		Help: "end a pooled sandbox, and the pool, that no command used for this long (90s, 5m, 1d)",
	},
	{
		Name: "shell", Kind: Truth, On: Pooling, Once: true, Group: Pools,
		Help: "start the shell of a pooled sandbox's first session too: for sessions, not for run",
	},
	{
		Name: "tree", Kind: Truth, On: Pooling, Once: true, Group: Pools,
		Help: "have the codebase's tree there too: for sandboxes of this codebase, with the same rules",
	},

	// Service.
	{
		Name: "config", On: Serve, Once: true, Group: Service,
		Help: "file with flags, as KEY: VALUE in YAML; SIGHUP reads it again. What the command line says counts more",
	},
	{
		Name: "quota", Key: "quotas", Kind: List, Pairs: true, On: Serve, Once: true, Group: Service,
		Help: "what an owner or an API key may have: ORG/PROJECT/USER=sandboxes:10,memory:8g,disk:20g,creates:30 or " +
			"key:NAME=..., each part of a name can be *; creates: in a minute; requests, of keys only: in a second. " +
			"The first that matches counts",
	},
	{
		Name: "listen", On: Serve, Once: true, Group: Service,
		Help: "where to listen: unix:PATH or HOST:PORT (default unix:service/sock in the state directory)",
	},
	{
		Name: "docker-socket", On: Serve, Once: true, Path: WholePath, Group: Service,
		Help: "also serve a part of Docker's Engine API on this unix socket, to you and root only: DOCKER_HOST=unix://PATH",
	},
	{
		Name: "api-keys", On: Serve, Once: true, Path: WholePath, Group: Service,
		Help: "file with API keys, one in each line, for HOST:PORT",
	},
	{
		Name: "volume-root", Kind: List, On: Serve, Once: true, Path: MountPath, Group: Service,
		Help: "let requests show directories in this one, unfiltered: DIR[:ro|rw], read-only unless rw",
	},
	{
		Name: "codebase-root", Kind: List, On: Serve, Once: true, Path: WholePath, Group: Service,
		Help: "let requests choose a codebase in this directory",
	},
	{
		Name: "allow-runtime", Kind: List, On: Serve, Once: true, Group: Service, Names: Backends,
		Help: "let requests choose this runtime, too",
	},
	{
		Name: "allow-registry", Kind: List, On: Serve, Once: true, Group: Service,
		Help: "let requests name images of this registry, which has no public address: HOST[:PORT]",
	},
	{
		Name: "allow-apply", Kind: Truth, On: Serve, Once: true, Group: Service,
		Help: "let requests apply the changes of sandboxes with cow to the codebase on this host",
	},
	{
		Name: "console", Kind: Truth, On: Serve, Once: true, Group: Service,
		Help: "serve a page at /console/ on which the sandboxes are watched and used, with the API keys",
	},
	{
		Name: "allow-answers", Kind: Truth, On: Serve, Once: true, Group: Service,
		Help: "let owners answer what their sandboxes ask with --ask",
	},
	{
		Name: "allow-builds", Kind: Truth, On: Serve, Once: true, Group: Service,
		Help: "let requests of E2B's API build templates, with the network and limits of the service",
	},
	{
		Name: "allow-volumes", Kind: Truth, On: Serve, Once: true, Group: Service,
		Help: "let requests of E2B's API make volumes, and fill the host's disk with them",
	},
	{
		Name: "warm", Kind: Whole, On: Serve, Once: true, Group: Service,
		Help: "keep so many sandboxes started ahead, for requests that choose no other runtime or image " +
			"(default: none)",
	},
	{
		Name: "grace", Kind: Duration, Default: "10s", On: Serve, Once: true, Group: Service,
		Help: "how long requests may go on after SIGTERM",
	},

	// Configuration.
	{
		Name: "profile", On: sandbox | Explain, Once: true, Group: Files,
		Help: "profile to use: see wolffia config profiles; empty for none (default: the one that a " +
			"configuration file names)",
	},
	{
		Name: "no-config", Kind: Truth, On: sandbox | Explain, Once: true, Group: Files,
		Help: "do not read configuration files",
	},
	{Name: "state-dir", Group: Files, Names: Directories}, // the root command's

	// Output.
	{Name: "json", Kind: Truth, On: Run, Once: true, Group: Output, Help: "print the whole result as JSON"},
	{Name: "json", Kind: Truth, On: Create | Pooling, Once: true, Group: Output, Help: "print a JSON object"},
	{
		Name: "quiet", Letter: "q", Kind: Truth, On: sandbox | Build, Group: Output,
		Help: "print no warnings, nor what the rules have denied",
	},
	// The root command's.
	{Name: "color", Group: Output, Values: []Value{{Name: "auto"}, {Name: "always"}, {Name: "never"}}},
	{Name: "help", Group: Output},  // cobra's
	{Name: "yolo", Group: Process}, // of the commands of agents

	// Fields of a sandbox's record that have no flag.
	{Record: "id", Pool: Claim},
	{Record: "codebaseId", Pool: Claim},
	{Record: "userName"},
	{Record: "codebaseNames"},
	{Record: "gitDirs"},
	{Record: "imageId"},
	{Record: "bareImage", Kind: Truth},
	{Record: "docker", Pool: Cold},
	{Record: "boundToCaller", Kind: Truth, Pool: Claim},
}
