package sandboxflags

import (
	"path"
	"slices"
	"strings"

	"wolffia/runtime"
	"wolffia/volume"
)

// The values of --cache beside the names of caches, and the suffix of each.
const (
	CacheAuto   = "auto"
	CacheNone   = "none"
	cacheShared = ":shared"
)

// addVolumes adds the volumes to c, which has its codebase and the variables that the user has
// set.
func (f *Sandbox) addVolumes(c *runtime.SandboxConfig) error {
	home := f.Text("home")
	if f.fixed && home != "" {
		return runtime.Errorf(runtime.ErrInvalid, "--home %s: all owners would have one home directory: use --volume NAME:PATH for what they may share", home)
	}
	if home != "" {
		name := volume.HomeName(home)
		if !runtime.IsVolumeName(name) {
			return runtime.Errorf(runtime.ErrInvalid, "--home %q: a name is up to %d letters, digits, dots, dashes and underscores", home, 63-len(volume.HomeName("")))
		}
		c.Volumes = append(c.Volumes, runtime.VolumeMount{Name: name, Target: "~"})
	}
	for _, s := range f.List("volume") {
		v, err := parseVolume(s)
		if err != nil {
			return err
		}
		c.Volumes = append(c.Volumes, v)
	}
	caches := f.List("cache")
	if len(caches) == 0 && !f.fixed && home == "" { // a home keeps them itself
		caches = []string{CacheAuto}
	}
	return f.addCaches(c, caches)
}

// addCaches adds caches to c.
func (f *Sandbox) addCaches(c *runtime.SandboxConfig, caches []string) error {
	added := map[string]bool{}
	// none drops what came before, as from a configuration
	caches = caches[1+last(caches, CacheNone):]
	for _, s := range caches {
		name, shared := strings.CutSuffix(s, cacheShared)
		names, key := []string{name}, ""
		switch {
		case name == CacheAuto && c.CodebasePath == "":
			continue // nothing calls for one
		case !shared && c.CodebasePath == "":
			return runtime.Errorf(runtime.ErrInvalid, "--cache %s: without a codebase a cache can only be one that all share: use %s%s", s, s, cacheShared)
		case !shared && f.fixed:
			return runtime.Errorf(runtime.ErrInvalid, "--cache %s: all owners would share the cache, and could change what others execute: if they may, use %s%s", s, s, cacheShared)
		case name == CacheAuto:
			names = volume.FindCaches(workDirs(c)...)
			if len(names) > 0 && !shared {
				key = f.rights(c)
			}
		}
		for _, name := range names {
			if added[name] {
				continue
			}
			added[name] = true
			if key != "" && taken(c, name) {
				continue
			}
			if err := volume.AddCache(c, name, shared, key); err != nil {
				return runtime.Errorf(runtime.ErrInvalid, "--cache %s: it must be %s or %s", s, CacheAuto, strings.Join(volume.Caches(), ", "))
			}
		}
	}
	return nil
}

// last returns the index of the last s in list; -1 if it has none.
func last(list []string, s string) int {
	for i := range slices.Backward(list) {
		if list[i] == s {
			return i
		}
	}
	return -1
}

// parseVolume reads NAME:PATH[:ro].
func parseVolume(s string) (runtime.VolumeMount, error) {
	var v runtime.VolumeMount
	rest, readOnly := strings.CutSuffix(s, ":ro")
	name, target, _ := strings.Cut(rest, ":")
	switch {
	case name == "" || target == "" || strings.Contains(target, ":"):
		return v, runtime.Errorf(runtime.ErrInvalid, "--volume %q: it must be NAME:PATH[:ro]", s)
	case strings.HasPrefix(name, "/") || strings.HasPrefix(name, "."):
		return v, runtime.Errorf(runtime.ErrInvalid, "--volume %q: a volume has a name, not a path: to show a directory of the host, use --mount", s)
	case !path.IsAbs(target) && target != "~" && !strings.HasPrefix(target, "~/"):
		return v, runtime.Errorf(runtime.ErrInvalid, "--volume %q: PATH must be absolute, or begin with ~/ for the home directory inside", s)
	}
	return runtime.VolumeMount{Name: name, Target: strings.TrimSuffix(target, "/"), ReadOnly: readOnly}, nil
}
