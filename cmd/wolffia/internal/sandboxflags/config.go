package sandboxflags

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/fields"
	"wolffia/internal/config"
	"wolffia/internal/host/statedir"
	"wolffia/perm"
	"wolffia/runtime"
)

// The flags about configuration files.
const (
	FlagProfile  = "profile"
	FlagNoConfig = "no-config"
)

// Configured has configuration files merged into the flags of a command before it runs. rules
// receives the rules of the files.
func Configured(h *host.Host, cmd *cobra.Command, rules *Rules) {
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Name() == "shell" && len(args) > 0 {
			return nil // the sandbox exists
		}
		ownCommand := cmd.Name() == "run" && len(args) == 0 && !cmd.Flags().Changed("codebase")
		c, err := ReadConfiguration(h, cmd.Flags(), ownCommand)
		if err != nil {
			return runtime.WithClass(runtime.ErrInvalid, err)
		}
		return rules.Located(c.apply(rules))
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return rules.Located(run(cmd, args)) }
}

// A configuration is what the configuration files say for one command line.
type configuration struct {
	host     *host.Host
	origins  map[string]string // where the values of flags come from that files have set
	flags    *pflag.FlagSet
	request  config.Request
	settings []config.Setting
	dir      string // the codebase, "" for none
	bare     bool   // the sandbox has no codebase: keys about one are left out
	home     string
	files    []string // paths of the files that are used
}

// ReadConfiguration reads the files for flags that are parsed. A project's file that is not
// trusted is left out, with a warning. ownCommand is set for an image's own command, which
// runs without a codebase.
func ReadConfiguration(h *host.Host, fl *pflag.FlagSet, ownCommand bool) (*configuration, error) {
	c := &configuration{host: h, origins: map[string]string{}, flags: fl, bare: ownCommand || fl.Changed("no-codebase")}
	c.home, _ = os.UserHomeDir() // without one, ~ in a file is an error
	if f := fl.Lookup(FlagProfile); f.Changed {
		c.request.Profile = new(f.Value.String())
	}
	off, err := fl.GetBool(FlagNoConfig)
	switch {
	case err != nil:
		return nil, err
	case off && c.request.Profile == nil:
		return c, nil
	case !off:
		if err := c.user(); err != nil {
			return nil, err
		}
	}
	c.dir = c.codebase()
	if !off && c.dir != "" {
		if err := c.project(); err != nil {
			return nil, err
		}
	}
	if c.request.User == nil && c.request.Project == nil && c.request.Profile == nil {
		return c, nil
	}
	c.known()
	c.settings, err = config.Merge(&c.request)
	return c, err
}

// known sets the keys and the profiles that wolffia has.
func (c *configuration) known() {
	if c.request.Keys == nil {
		c.request.Keys = fields.Keys()
		c.request.Builtin = config.Builtin()
	}
}

// user reads the user's file.
func (c *configuration) user() error {
	path := config.UserFile(os.Getenv)
	if path == "" {
		return nil
	}
	c.request.UserName = c.short(path)
	data, err := config.ReadUser(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("configuration file %s: %w; --%s continues without", path, err, FlagNoConfig)
	}
	c.known()
	c.request.User, err = config.Parse(c.request.Keys, config.Place{Name: c.request.UserName, Dir: filepath.Dir(path), Home: c.home}, data)
	c.files = append(c.files, path)
	return err
}

// short returns a path below the home directory with ~.
func (c *configuration) short(path string) string {
	if rest, ok := strings.CutPrefix(path, c.home+"/"); ok && c.home != "" {
		return "~/" + rest
	}
	return path
}

// codebase returns the directory whose file is the project's, "" for none.
func (c *configuration) codebase() string {
	f := c.flags.Lookup("codebase")
	switch {
	case c.bare:
		return ""
	case f.Changed:
		return f.Value.String()
	case c.request.Profile != nil:
		c.known()
	}
	if named := c.request.Codebase(); named != "" {
		return named
	}
	dir, _ := hostdir.Project()
	return dir
}

// project reads the project's file if the user trusts it.
func (c *configuration) project() error {
	data, err := config.ReadProject(c.dir)
	name := filepath.Join(c.dir, config.ProjectName)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		c.host.Warn("%s was not used: %s", console.Printable(name), err)
		return nil
	}
	dir, sum, err := Identify(c.dir, data)
	if err != nil {
		return err
	}
	state, err := c.host.StatePath()
	if err != nil {
		return err
	}
	trust, err := statedir.Trusted(state, dir)
	if err != nil {
		return err
	}
	if trust == nil || trust.SHA256 != sum {
		what := "is not trusted"
		if trust != nil {
			what = "has changed since it was trusted"
		}
		c.host.Warn("%s %s and was not used: read it, then wolffia trust", console.Printable(name), what)
		return nil
	}
	c.known()
	c.request.Project, err = config.Parse(c.request.Keys, config.Place{Name: name, Dir: dir, Home: c.home, Project: true}, data)
	c.files = append(c.files, filepath.Join(dir, config.ProjectName))
	return err
}

// Identify returns what a project's file is trusted by: its directory without links, and
// the checksum of its content.
func Identify(dir string, data []byte) (path, sum string, err error) {
	if path, err = filepath.Abs(dir); err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	hash := sha256.Sum256(data)
	return path, hex.EncodeToString(hash[:]), err
}

// apply sets the flags that the command line does not set. It adds what the files say to
// flags that may be repeated, in front of what the command line says.
func (c *configuration) apply(rules *Rules) error {
	rules.configs, rules.origins = c.files, c.origins
	for i := range c.request.Keys {
		k := &c.request.Keys[i]
		f, settings := c.flags.Lookup(k.Name), c.of(k.Key)
		if f == nil || len(settings) == 0 || c.idle(k, &settings[len(settings)-1]) {
			continue
		}
		var err error
		switch k.Key {
		case "rules", "reveal":
			err = rules.configured(k.Key, settings)
		case "preset": // not as flags, which are an error without a codebase
			s := settings[len(settings)-1]
			rules.filePreset, rules.projectPreset = s.Values[0], !f.Changed && s.Source.Project
			for _, own := range settings {
				if !own.Source.Project && (c.request.User == nil || !slices.Contains(c.request.User.Allow, k.Key)) {
					rules.userPreset = own.Values[0]
				}
			}
		case "policy":
			s := settings[len(settings)-1]
			rules.filePolicy, rules.projectPolicy = s.Values[0], s.Source.Project
			if !f.Changed {
				c.origins[f.Name] = s.Source.String()
			}
		default:
			err = c.set(f, settings)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// idle reports whether the setting s of k has no effect: a codebase and its limit where the
// command line wants none, how to keep limits without a limit, and a project's preset beside a
// policy file of the user's, which may be closed.
func (c *configuration) idle(k *fields.Field, s *config.Setting) bool {
	switch k.Name {
	case "codebase", "disk":
		return c.bare
	case flagNetwork, FlagAllowHost, flagAddHost, flagNoSNICheck, FlagHeader:
		return c.otherNetwork(k.Name)
	case "preset":
		policy := c.of("policy")
		own := c.flags.Changed("policy") || len(policy) > 0 && !policy[len(policy)-1].Source.Project
		return own && s.Source.Project
	case "limits":
		return !slices.ContainsFunc([]string{"memory", "cpus", "pids"}, func(name string) bool {
			return c.flags.Changed(name) || len(c.of(name)) > 0
		})
	}
	return false
}

// otherNetwork reports whether what the files say for a key about the network has no effect,
// since the command line, or a file that counts more, has another network: names beside none and
// host, and these beside names.
func (c *configuration) otherNetwork(key string) bool {
	unfiltered := func(network string) bool { return network != "" && network != string(runtime.NetworkFiltered) }
	typed := func(flag string) bool { return c.flags.Changed(flag) && c.origins[flag] == "" }
	names := func(flag string) bool { return slices.Contains(NameFlags, flag) }
	if key == flagNetwork {
		if !typed(flagNetwork) && slices.ContainsFunc(NameFlags, typed) {
			return true
		}
	} else if typed(flagNetwork) && unfiltered(c.flags.Lookup(flagNetwork).Value.String()) {
		return true
	}
	at := func(is func(string) bool) int { // of the last setting
		for i := len(c.settings) - 1; i >= 0; i-- {
			if is(c.settings[i].Key) {
				return i
			}
		}
		return -1
	}
	network, name := at(func(k string) bool { return k == flagNetwork }), at(names)
	if network < 0 || name < 0 || !unfiltered(c.settings[network].Values[0]) {
		return false
	}
	a, b := c.settings[network].Source, c.settings[name].Source
	if a.File == b.File && a.Profile == b.Profile {
		return false // a contradiction
	}
	return (key == flagNetwork) == (network < name)
}

// of returns the settings of a key, the weakest first.
func (c *configuration) of(name string) (out []config.Setting) {
	for _, s := range c.settings {
		if s.Key == name {
			out = append(out, s)
		}
	}
	return out
}

// set gives a flag the value of settings.
func (c *configuration) set(f *pflag.Flag, settings []config.Setting) (err error) {
	s := settings[len(settings)-1]
	list, several := f.Value.(pflag.SliceValue)
	if f.Changed && !several {
		return nil
	}
	if !f.Changed {
		c.origins[f.Name] = s.Source.String()
		if several {
			c.origins[f.Name] = placesOf(settings)
		}
	}
	if several {
		var values []string
		for _, s := range settings {
			values = append(values, s.Values...)
		}
		err = list.Replace(append(values, list.GetSlice()...))
		f.Changed = true
	} else {
		err = c.flags.Set(f.Name, s.Values[0])
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "%s: %s: %w", s.Source, s.Key, err)
	}
	return nil
}

// placesOf returns the places of settings.
func placesOf(settings []config.Setting) string {
	var all []string
	for _, s := range settings {
		all = append(all, s.Source.String())
	}
	return strings.Join(all, " or ")
}

// configured adds the rules of configuration files. Those of the user's own outrank those
// of the project.
func (f *Rules) configured(name string, settings []config.Setting) error {
	for _, s := range settings {
		to := map[string]*[]perm.Rule{"rules": &f.own, "reveal": &f.ownReveals}[name]
		if s.Source.Project {
			to = map[string]*[]perm.Rule{"rules": &f.project, "reveal": &f.projectReveals}[name]
		}
		for _, text := range s.Values {
			rule, err := perm.ParseRule(text)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Source, err)
			}
			rule.Source = s.Source.String()
			*to = append(*to, rule)
		}
	}
	return nil
}

// Located adds to an error about a value where that comes from, if that is a configuration file.
func (f *Rules) Located(err error) error {
	if err == nil || len(f.origins) == 0 {
		return err
	}
	flag, longest := "", 0
	for _, k := range fields.Keys() {
		for _, subject := range append(subjects[k.Name], "--"+k.Name, strings.ReplaceAll(k.Name, "-", " ")) {
			rest, ok := strings.CutPrefix(err.Error(), subject)
			if ok && (rest == "" || strings.ContainsAny(rest[:1], ": ")) && len(subject) > longest {
				flag, longest = k.Name, len(subject)
			}
		}
	}
	if f.origins[flag] == "" {
		return err
	}
	return fmt.Errorf("%s: %w", f.origins[flag], err)
}

// subjects are what errors about the value of a flag begin with, beside its name.
var subjects = map[string][]string{
	"env":         {"-e", "variable"},
	FlagAllowHost: {"network rule"},
	"rootfs":      {"root file system"},
	"policy":      {"policy file"},
}

// Profiles returns the profiles that can be named here.
func Profiles(h *host.Host, fl *pflag.FlagSet) ([]config.Profile, error) {
	c := &configuration{host: h, flags: fl}
	c.home, _ = os.UserHomeDir() // as in configuration
	c.known()
	if err := c.user(); err != nil {
		return nil, err
	}
	if c.dir = c.codebase(); c.dir != "" {
		if err := c.project(); err != nil {
			return nil, err
		}
	}
	return c.request.Profiles(true), nil
}

// A Value is the value of a key, or a part of a list, with where it comes from.
type Value struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
	Source string   `json:"source"` // "flag", "built-in", FILE:LINE
}

// values returns what holds for a key: one value, or the parts of a list.
func (c *configuration) values(k *fields.Field) (all []Value) {
	f, settings := c.flags.Lookup(k.Name), c.of(k.Key)
	flag := Value{k.Key, []string{f.Value.String()}, "flag"}
	if list, several := f.Value.(pflag.SliceValue); several {
		flag.Values = append([]string{}, list.GetSlice()...) // JSON has [] for nothing
	} else if n := len(settings); n > 0 {
		settings = settings[n-1:]
	}
	if k.Kind == fields.List || !f.Changed {
		for _, s := range settings {
			if !c.idle(k, &s) {
				// as above
				all = append(all, Value{k.Key, append([]string{}, s.Values...), s.Source.String()})
			}
		}
	}
	switch {
	case f.Changed:
		all = append(all, flag)
	case len(all) == 0:
		flag.Source = "built-in"
		if k.Name == flagNetwork && slices.ContainsFunc(NameFlags, c.has) {
			flag.Values = []string{string(runtime.NetworkFiltered)} // as networkFlags.apply has it
		}
		all = append(all, flag)
	}
	return all
}

// has reports whether a flag or a file has a value for the flag called name.
func (c *configuration) has(name string) bool { return c.flags.Changed(name) || len(c.of(name)) > 0 }

// CheckProject parses a project's file, and merges it with the user's own: an error there
// would be one of each later command.
func CheckProject(h *host.Host, name, dir string, data []byte) (*config.Request, error) {
	c := &configuration{host: h}
	c.home, _ = os.UserHomeDir() // as in configuration
	c.known()
	if err := c.user(); err != nil {
		return nil, err
	}
	var err error
	c.request.Project, err = config.Parse(c.request.Keys, config.Place{Name: name, Dir: dir, Home: c.home, Project: true}, data)
	if err != nil {
		return nil, err
	}
	_, err = config.Merge(&c.request)
	return &c.request, err
}

// All returns what holds for each key.
func (c *configuration) All() (all []Value) {
	c.known()
	for i := range c.request.Keys {
		all = append(all, c.values(&c.request.Keys[i])...)
	}
	return all
}
