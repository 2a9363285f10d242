package local

import (
	"slices"
	"strings"
	"sync"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/wire"
)

// A catalog finds the sandboxes of a state directory that belong to the backends.
// A sandbox of another backend does not exist for it. All parts of a Runtime share it.
type catalog struct {
	dir       *statedir.Dir
	wolffia   string           // path of the program
	backends  []launch.Backend // at least one; the first is the default
	rulesText rulesText
	umask     wire.Umask // of what is started inside

	mu    sync.Mutex
	cache map[string]cached // by sandbox id; guarded by mu
}

// A cached configuration never changes. Its stamp tells whether the file still holds it.
type cached struct {
	config *statedir.Config
	stamp  statefile.Stamp
	limits *limiting // Create's plan, for the first start; nil: none is left
}

// backend returns the backend with the given name, or nil.
func (c *catalog) backend(name string) *launch.Backend {
	i := slices.IndexFunc(c.backends, func(b launch.Backend) bool { return b.Name() == name })
	if i < 0 {
		return nil
	}
	return &c.backends[i]
}

// engineBackend returns the first backend that runs sandboxes in an engine, or nil.
func (c *catalog) engineBackend() *launch.Backend {
	i := slices.IndexFunc(c.backends, func(b launch.Backend) bool { return b.Place != launch.BesideShim })
	if i < 0 {
		return nil
	}
	return &c.backends[i]
}

// find returns the record and the configuration of the sandbox that ref names: an id, a name, or a
// prefix of an id. The configuration is shared: the caller must not change it.
func (c *catalog) find(ref string) (*statedir.Record, *statedir.Config, error) {
	return c.seek(ref, true)
}

// header is find for a caller that does not use the rules. They are missing unless they are
// cached: see [statedir.Record.LoadHeader].
func (c *catalog) header(ref string) (*statedir.Record, *statedir.Config, error) {
	return c.seek(ref, false)
}

// seek is find if rules is true, else header.
func (c *catalog) seek(ref string, rules bool) (*statedir.Record, *statedir.Config, error) {
	if runtime.IsID(ref) {
		rec := c.dir.Record(ref)
		if config := c.known(rec); config != nil && !(rules && config.HeaderOnly) {
			return rec, config, nil
		}
	}
	rec, err := c.dir.Find(ref)
	if err != nil {
		return nil, nil, err
	}
	stamp := rec.Stamp() // before the read: a later version is then read again
	read := rec.LoadHeader
	if rules {
		read = rec.Config
	}
	config, err := read()
	if err != nil {
		return nil, nil, err
	}
	if c.backend(config.Runtime) == nil {
		return nil, nil, runtime.Errorf(runtime.ErrNotFound, "sandbox %s uses runtime %q: this runtime has %s",
			rec.ID(), config.Runtime, strings.Join(launch.Names(c.backends), ", "))
	}
	c.remember(config, stamp, nil)
	return rec, config, nil
}

// known returns the configuration of the sandbox in rec if it is cached and still in its file,
// else nil. It may lack the rules.
func (c *catalog) known(rec *statedir.Record) *statedir.Config {
	c.mu.Lock()
	known := c.cache[rec.ID()]
	c.mu.Unlock()
	if known.config == nil || known.stamp != rec.Stamp() {
		return nil
	}
	return known.config
}

// remember caches a configuration, and the plan for its limits if it was just made.
func (c *catalog) remember(config *statedir.Config, stamp statefile.Stamp, limits *limiting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache[config.ID] = cached{config, stamp, limits}
}

// takeLimits returns the plan that remember was given, once; else nil.
func (c *catalog) takeLimits(id string) *limiting {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.cache[id]
	limits := known.limits
	if known.limits = nil; ok {
		c.cache[id] = known
	}
	return limits
}

// forget drops a configuration from the cache.
func (c *catalog) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cache, id)
}
