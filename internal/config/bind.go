package config

import (
	"fmt"
	"slices"
	"strings"
)

// A how is how a value in a project's file combines with those of the user's own file.
type how uint8

const (
	deny    how = iota // the user's file must allow the key; the zero value, also of a new flag
	never              // not in a project's file at all
	free               // the project's value counts
	same               // a value that the user has set must be repeated
	most               // not more than the user has set
	ranked             // not later in the order than what the user has set
	named              // K=V is free; K, which takes a variable of the host, as deny
	ordered            // rules: perm gives those of a project a rank of their own
	names              // of hosts: those of the user, where the user's network has limits
)

// A pathKind is what of a value is a path of the host.
type pathKind uint8

const (
	noPath pathKind = iota
	wholePath
	mountPath // SRC of SRC:DST, and DST if it begins with ~
	valuePath // FILE of NAME:HEADER=@FILE
)

// A binding is what is known of a key beside its flag.
type binding struct {
	how     how
	order   []string // of ranked: from the strictest value
	preset  string   // of ranked: what counts as set if the user has set nothing; "": nothing
	path    pathKind
	pairs   bool   // a list of K=V, which a file may have as a mapping
	refuse  string // a value with this text in it is as deny
	because string // of deny: the reason
}

// bindings has a row for each key that has anything but deny. docs/configuration.md has
// the same table.
var bindings = map[string]binding{
	"codebase":       {how: never, path: wholePath},
	"cwd":            {how: free},
	"mount-point":    {how: free},
	"name":           {how: free},
	"label":          {how: free, pairs: true},
	"env":            {how: named, pairs: true},
	"rules":          {how: ordered},
	"reveal":         {how: ordered},
	"preset":         {how: ranked, order: []string{"view-only", "read-only", "agent-safe", "development", "full-access"}, preset: "agent-safe"},
	keyNetwork:       {how: ranked, order: []string{"none", "filtered", "host"}},
	keyAllowHost:     {how: names},
	"add-host":       {because: "the address may be a service of this host or of its network"},
	"no-sni-check":   {because: "connections for the name could then reach other hosts at its address"},
	"upstream-proxy": {because: "the proxy decides where connections go"},
	"header":         {path: valuePath, because: "it reads a file of yours and sends what it has"},
	"runtime":        {how: ranked, order: []string{"gvisor", "bwrap", "docker"}, preset: "bwrap"},
	"limits":         {how: ranked, order: []string{"strict", "best-effort"}, preset: "strict"},
	"filter":         {how: ranked, order: []string{"fuse", "auto", "none", "static"}, preset: "auto"},
	"platform":       {how: same},
	"image":          {how: same},
	"toolchains":     {how: same},
	"cache":          {how: same, refuse: "shared", because: "other projects use a shared cache"},
	"memory":         {how: most},
	"cpus":           {how: most},
	"pids":           {how: most},
	"disk":           {how: most},
	"ttl":            {how: most},
	"idle-timeout":   {how: most},
	"timeout":        {how: most},
	"mount":          {path: mountPath, because: "it shows a directory without rules, of the host or of the codebase"},
	"rootfs":         {path: wholePath, because: "the sandbox would run on a directory of the project's choice"},
	"policy":         {path: wholePath, because: "wolffia trust does not show what that file says; use rules and reveal"},
	"audit":          {path: wholePath, because: "the file is overwritten"},
	"owner":          {because: "the service trusts it"},
	"home":           {because: "a home may have another project's credentials"},
	"volume":         {because: "a volume may be another project's"},
	"cow":            {how: ranked, order: []string{"true", "false"}, preset: "false"},
	"worktree":       {because: "it makes branches and working trees in your repository"},
	"publish":        {because: "other programs would take the project's server for one of this host"},
	"expose":         {because: "a service of this host may trust whatever connects from it"},
	"socket":         {path: mountPath, because: "the program behind it acts for you"},
	"socket-force":   {because: "the sandbox could control this host"},

	"git-credentials": {because: "the sandbox could use your passwords"},
}

// Order returns the values of a key that has an order, the strictest first, or nil.
func Order(name string) []string { return slices.Clone(bindings[name].order) }

// bind returns an error if the project's setting is more than the user allows. own are
// the user's settings.
func bind(keys []Key, s *Setting, own []Setting, user *File, userName string) error {
	b := bindings[s.Key]
	if len(s.Values) == 0 {
		return nil // an empty list
	}
	if user != nil && slices.Contains(user.Allow, s.Key) {
		return nil
	}
	mine := last(own, s.Key)
	problem, because := "", b.because
	how := b.how
	if b.refuse != "" && slices.ContainsFunc(s.Values, func(v string) bool { return strings.Contains(v, b.refuse) }) {
		how = deny
	}
	switch how {
	case deny:
		if because == "" {
			because = "it is not known to be harmless"
		}
		problem = "a project's file may not set it, since " + because
	case named:
		for _, v := range s.Values {
			if !strings.Contains(v, "=") && !slices.Contains(all(own, s.Key), v) {
				problem = fmt.Sprintf("a project's file may not take the variable %q of the host", v)
			}
		}
	case same:
		if mine != nil && !slices.Equal(mine.Values, s.Values) {
			problem = fmt.Sprintf("%q is not %q", strings.Join(s.Values, ","), strings.Join(mine.Values, ","))
		}
	case ranked:
		limit := b.preset
		if hosts := last(own, keyAllowHost); s.Key == keyNetwork && mine == nil && hosts != nil {
			mine, limit = hosts, "filtered"
		} else if mine != nil && len(mine.Values) > 0 {
			limit = mine.Values[0]
		}
		if v := s.Values[0]; limit != "" && v != limit && !earlier(b.order, v, limit) {
			problem = fmt.Sprintf("%s gives more than %s", v, limit)
		}
	case most:
		problem = exceeds(key(keys, s.Key), s, mine)
	case names:
		if problem = widensNames(s, own); problem != "" {
			if net := last(own, keyNetwork); net != nil {
				mine = net
			}
		}
	case never:
		problem = "a project's file may not set it"
	case free, ordered:
	}
	if problem == "" {
		return nil
	}
	if mine != nil && how != deny && how != named {
		problem += fmt.Sprintf(" of %s", mine.Source)
	}
	return fmt.Errorf("%s: %s: %s; remove the line, or add %s to allow: in %s", s.Source, s.Key, problem, s.Key, userName)
}

// earlier reports whether a comes before b in order. What is not in order does not.
func earlier(order []string, a, b string) bool {
	i, j := slices.Index(order, a), slices.Index(order, b)
	return i >= 0 && j >= 0 && i < j
}

// exceeds returns what is wrong with the project's amount s, if the user has set mine,
// which may be nil.
func exceeds(k *Key, s, mine *Setting) string {
	if mine == nil {
		return ""
	}
	if k != nil && k.Amount != nil {
		want, err := k.Amount(s.Values[0])
		limit, err2 := k.Amount(mine.Values[0])
		if err == nil && err2 == nil && want <= limit {
			return ""
		}
	}
	return fmt.Sprintf("%s is more than %s", s.Values[0], mine.Values[0])
}

// The keys about names of hosts.
const (
	keyNetwork   = "network"
	keyAllowHost = "allow-host"
)

// widensNames returns what is wrong with the project's names of hosts, if the user has a
// network without them.
func widensNames(s *Setting, own []Setting) string {
	network, mine := "", all(own, keyAllowHost)
	if set := last(own, keyNetwork); set != nil {
		network = set.Values[0]
	}
	if network == "host" || network == "" && len(mine) == 0 {
		return "" // the project's is less, or the user has set nothing
	}
	for _, v := range s.Values {
		if network == "none" || !slices.Contains(mine, v) {
			return fmt.Sprintf("%q gives more than the network", v)
		}
	}
	return ""
}

// last returns the last setting of a key, which decides for a single value, or nil.
func last(settings []Setting, name string) *Setting {
	for i := len(settings) - 1; i >= 0; i-- {
		if settings[i].Key == name {
			return &settings[i]
		}
	}
	return nil
}

// all returns the values of all settings of a key.
func all(settings []Setting, name string) (values []string) {
	for _, s := range settings {
		if s.Key == name {
			values = append(values, s.Values...)
		}
	}
	return values
}

// Widens returns the settings of the project's file, also in its profiles, that may give a
// sandbox more than it has without them. Those of a profile that the file names and does not have are
// returned with the place of the name, and with "profile NAME: " before the key.
func Widens(r *Request) (out []Setting) {
	check := r.Project.Settings
	for _, p := range r.Project.Profiles {
		check = slices.Concat(check, p.Settings)
	}
	for _, s := range check {
		if widens(&s) {
			out = append(out, s)
		}
	}
	selected := r.Project.Profile
	if selected == nil {
		return out
	}
	more, _ := r.profile(selected.Values[0], true) // Merge reports an unknown one
	for _, s := range more {
		if !s.Source.Project && widens(&s) {
			out = append(out, Setting{Key: "profile " + selected.Values[0] + ": " + s.Key, Values: s.Values, Source: selected.Source})
		}
	}
	return out
}

// widens reports whether a setting may give a sandbox more than it has without it.
func widens(s *Setting) bool {
	b := bindings[s.Key]
	if len(s.Values) == 0 {
		return false
	}
	switch b.how {
	case ranked:
		normal := b.preset
		if normal == "" {
			normal = b.order[0]
		}
		return s.Values[0] != normal && !earlier(b.order, s.Values[0], normal)
	case named:
		return slices.ContainsFunc(s.Values, func(v string) bool { return !strings.Contains(v, "=") })
	case deny, names:
		return true
	}
	return s.Key == "reveal" || s.Key == "image"
}
