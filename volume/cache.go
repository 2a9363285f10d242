package volume

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"wolffia/runtime"
)

// CacheName returns the name of a codebase's own volume for a cache; codebase is the
// resolved path. If it is empty, it is the one that all codebases share on request. With root it
// is that of sandboxes with root inside.
func CacheName(cache, codebase string, root bool) string {
	name := runtime.CachePrefix + cache
	if root {
		name += "-root"
	}
	if codebase == "" {
		return name
	}
	sum := sha256.Sum256([]byte(codebase))
	return name + "-" + hex.EncodeToString(sum[:6])
}

// KeyedName returns the name of a volume that sandboxes of a user have over a repository if their
// key is the same.
func KeyedName(cache, repository, key string, uid int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %s %d", repository, key, uid))
	return runtime.CachePrefix + cache + "-" + hex.EncodeToString(sum[:8])
}

// base is where caches are inside that a variable tells their programs of.
const base = "/var/cache/wolffia"

// A kind is a program, or several, with a cache.
type kind struct {
	name string
	// mounts are volumes by what they cache. A target that does not begin with / is in the
	// directory that the variable root names, else in rootDefault.
	mounts      map[string]string
	root        string
	rootDefault string
	env         map[string]string
	// unless leaves a variable out if the codebase has the file.
	unless map[string]string
	// marks are files at a codebase's root that show that it is of use.
	marks []string
	// needs is a program on the host without which the marks do not count; empty: none.
	needs string
	// named: only who names it gets it.
	named bool
}

// kinds are all of them. Only what can be fetched or built again is cached: no credentials,
// no settings.
var kinds = []kind{
	{
		name: "go", mounts: map[string]string{"go": base + "/go"},
		env:   map[string]string{"GOCACHE": base + "/go/build", "GOMODCACHE": base + "/go/mod"},
		marks: []string{"go.mod", "go.work"},
	},
	{
		name: "npm", mounts: map[string]string{"npm": base + "/npm"},
		env:   map[string]string{"npm_config_cache": base + "/npm"},
		marks: []string{"package-lock.json", "npm-shrinkwrap.json"},
	},
	{
		name: "pnpm", mounts: map[string]string{"pnpm": base + "/pnpm"},
		// The first is for versions up to 10, the second for later ones.
		env:   map[string]string{"npm_config_store_dir": base + "/pnpm", "pnpm_config_store_dir": base + "/pnpm"},
		marks: []string{"pnpm-lock.yaml"},
	},
	{
		name: "yarn", mounts: map[string]string{"yarn": base + "/yarn"},
		env: map[string]string{"YARN_CACHE_FOLDER": base + "/yarn/v1", "YARN_GLOBAL_FOLDER": base + "/yarn/berry"},
		// Later versions than 1 have a cache in the project, which the variable would replace.
		unless: map[string]string{"YARN_CACHE_FOLDER": ".yarnrc.yml"},
		marks:  []string{"yarn.lock"},
	},
	{
		name: "pip", mounts: map[string]string{"pip": base + "/pip"},
		env:   map[string]string{"PIP_CACHE_DIR": base + "/pip"},
		marks: []string{"requirements.txt", "pyproject.toml", "setup.py", "setup.cfg", "Pipfile"},
	},
	{
		name: "uv", mounts: map[string]string{"uv": base + "/uv"},
		// A virtual environment is on another file system: a hard link to it is impossible.
		env:   map[string]string{"UV_CACHE_DIR": base + "/uv", "UV_LINK_MODE": "copy"},
		marks: []string{"uv.lock"},
	},
	{
		// Not CARGO_HOME itself: it has credentials and settings.
		name: "cargo", mounts: map[string]string{"cargo": "registry", "cargo-git": "git"},
		root: "CARGO_HOME", rootDefault: "~/.cargo",
		marks: []string{"Cargo.toml"},
	},
	{
		// for all its versions, and others that read it
		name: "maven", mounts: map[string]string{"maven": "~/.m2/repository"},
		marks: []string{"pom.xml"},
	},
	{
		name: "gradle", mounts: map[string]string{"gradle": base + "/gradle"},
		env:   map[string]string{"GRADLE_USER_HOME": base + "/gradle"},
		marks: []string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"},
		// A program that waits for a lock asks its owner over loopback, which two sandboxes do not have in common.
		named: true,
	},
	{
		name: "ccache", mounts: map[string]string{"ccache": base + "/ccache"},
		env:   map[string]string{"CCACHE_DIR": base + "/ccache"},
		marks: []string{"CMakeLists.txt", "Makefile", "configure", "meson.build"}, needs: "/usr/bin/ccache",
	},
}

// Caches returns the names that AddCache accepts.
func Caches() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// AddCache adds the volumes and variables of the cache of a program to c: one of Caches. The
// volumes are the codebase's own, with a key its repository's own for that key, or with shared
// those of all codebases. Variables that c has stay as they are. ErrInvalid: the name is unknown.
func AddCache(c *runtime.SandboxConfig, name string, shared bool, key string) error {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return runtime.Errorf(runtime.ErrInvalid, "cache %q is unknown: the caches are %v", name, Caches())
	}
	k := &kinds[i]
	root := c.Env[k.root]
	if !path.IsAbs(root) {
		root = k.rootDefault
	}
	for _, cache := range slices.Sorted(maps.Keys(k.mounts)) {
		v := runtime.VolumeMount{Target: k.mounts[cache], Cache: cache, Key: key}
		if root != "" {
			v.Target = path.Join(root, v.Target)
		}
		if shared {
			v.Name = CacheName(cache, "", c.Root)
		}
		c.Volumes = append(c.Volumes, v)
	}
	for name, value := range k.env {
		if _, set := c.Env[name]; set || k.unless[name] != "" && has(c.CodebasePath, k.unless[name]) {
			continue
		}
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		c.Env[name] = value
	}
	return nil
}

// FindCaches returns the caches that are of use, by the names of files in directories of a codebase.
func FindCaches(dirs ...string) []string {
	file := func(name string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return has(dir, name) })
	}
	return find(file, func(program string) bool { return has("/", program) })
}

// find decides which caches are of use.
func find(file, program func(string) bool) []string {
	var found []string
	for _, k := range kinds {
		if !k.named && slices.ContainsFunc(k.marks, file) && (k.needs == "" || program(k.needs)) {
			found = append(found, k.name)
		}
	}
	isNode := func(name string) bool { return name == "npm" || name == "pnpm" || name == "yarn" }
	if file("package.json") && !slices.ContainsFunc(found, isNode) {
		found = append(found, "npm")
	}
	return found
}

// has reports whether a directory has a name, whatever it is.
func has(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return dir != "" && err == nil
}
