package fields

// A Group is a part of the flags in a command's help.
type Group uint8

// The groups, in the order of help.
const (
	Rest Group = iota // in none
	Rules
	System
	Network
	Process
	Limits
	Lifetime
	Naming
	Pools
	Service
	Files
	Output
)

// titles are the titles of the groups.
var titles = [...]string{
	Rest: "Flags", Rules: "Codebase and rules", System: "System and mounts", Network: "Network",
	Process: "Command and environment", Limits: "Limits", Lifetime: "Lifetime", Naming: "Names", Pools: "Pool",
	Service: "Service", Files: "Configuration", Output: "Output",
}

// String returns the title of g.
func (g Group) String() string { return titles[g] }

// Groups returns the groups in the order of help; what is in none of them comes last.
func Groups() []Group {
	return []Group{Rules, System, Network, Process, Limits, Lifetime, Naming, Pools, Service, Files, Output, Rest}
}

// GroupOf returns the group of a flag; Rest if it has none.
func GroupOf(flag string) Group {
	if f := Flag(flag); f != nil {
		return f.Group
	}
	return Rest
}
