package cgroup

// What the tests need, which are apart since the probes know this package.
var (
	Exists  = exists
	Read    = read
	InScope = inScope
)

// Dir is where a controller's files are.
func (g *Group) Dir(controller string) string { return g.dir(controller) }
