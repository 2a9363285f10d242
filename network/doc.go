// Package network decides, from a policy alone, which ports of which names a sandbox may connect
// to.
//
// A [Policy] lists what is allowed; everything else is refused. [Policy.Compile] checks it. The
// result, a [Compiled], answers two questions: whether a name exists for the sandbox
// ([Compiled.Known]), and whether a connection to a port of it may be made ([Compiled.Allows]).
// [Forbidden] says which addresses a name must not lead to. The package does no input and no
// output; package internal/host/gateway acts on its decisions.
//
// # Rules
//
// A rule is "NAME[:PORTS]", "*.DOMAIN[:PORTS]" or "@LIST":
//
//	registry.example             the name, on ports 80 and 443
//	registry.example:443         the name, on port 443
//	git.example:22,443           the name, on two ports
//	dev.example:8000-8010        the name, on a range of ports
//	*.cdn.example                each name below cdn.example, at any depth; not cdn.example
//	@npm                         a named list, see [Lists]
//
// All rules of a name add up. Names are compared in the form that [NormalName] returns: lower
// case, no final dot, labels outside ASCII as IDNA 2008 (UTS 46, not transitional) encodes
// them. An address is not a name: Policy.Hosts gives an address a name.
//
// # Addresses
//
// A name leads to the public addresses that the host's resolver returns for it. Loopback,
// link-local, metadata, private and other special addresses, and the forms of IPv6 that embed
// them, are refused: the owner of a name can let it point there. Policy.Hosts is the explicit
// consent to one address for one name, and then replaces resolution.
package network
