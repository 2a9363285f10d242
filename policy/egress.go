package policy

import (
	"fmt"

	"wolffia/network"
	"wolffia/perm"
	"wolffia/runtime"
)

// Egress returns the policy in a policy file's field network, nil if it allows nothing. inside
// says that the file is in the codebase, where a sandbox may have written it: then it must not
// lead to services of this host or its network, and must not disable the check of names. An error
// names the line and is of class runtime.ErrInvalid.
func Egress(file *perm.PolicyFile, inside bool) (*network.Policy, error) {
	if file == nil || len(file.Network) == 0 {
		return nil, nil
	}
	p := new(network.Policy)
	for _, e := range file.Network {
		var err error
		switch {
		case inside && e.Key != "allow-host":
			err = fmt.Errorf("the file is in the codebase, where a sandbox may have written it: use --%s %s, or a policy file outside of the codebase", e.Key, e.Text)
		case e.Key == "allow-host":
			p.Allow = append(p.Allow, e.Text)
			_, err = (&network.Policy{Allow: []string{e.Text}}).Compile()
		case e.Key == "no-sni-check":
			p.NoNameCheck = append(p.NoNameCheck, e.Text)
			_, err = (&network.Policy{NoNameCheck: []string{e.Text}}).Compile()
		default:
			err = addHost(p, e.Text)
		}
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "%s: %s: %w", e.Source, e.Key, err)
		}
	}
	if _, err := p.Compile(); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%s: %w", file.Name, err)
	}
	return p, nil
}

// addHost adds NAME:ADDR to Policy.Hosts.
func addHost(p *network.Policy, text string) error {
	name, address, err := network.ParseHost(text)
	if err != nil {
		return err
	}
	if other, twice := p.Hosts[name]; twice && other != address {
		return fmt.Errorf("the name has two addresses, %s too; leave one out", other)
	}
	if p.Hosts == nil {
		p.Hosts = map[string]string{}
	}
	p.Hosts[name] = address
	return nil
}
