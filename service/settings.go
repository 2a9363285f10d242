package service

import (
	"encoding/json"
	"maps"
	"slices"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// asked returns the settings that a request sets, as JSON, by name.
func (p *Params) asked() (map[string]json.RawMessage, error) {
	all := map[string]any{}
	for name, value := range p.Settings {
		all[name] = value
	}
	if n := p.reaches(); n != "" {
		all["network"] = n
	}
	if p.Egress != nil {
		all["egress"] = p.Egress
	}
	texts := map[string]json.RawMessage{}
	for name, value := range all {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		texts[name] = text
	}
	return texts, nil
}

// reaches returns the network that a request asks for; empty: that of the service's own configuration.
func (p *Params) reaches() runtime.Network {
	if p.Network == "" && p.Egress != nil {
		return runtime.NetworkFiltered
	}
	return p.Network
}

// setAsked records in the labels of a new sandbox which settings a request sets.
func setAsked(labels map[string]string, p *Params) error {
	asked, err := p.asked()
	if err != nil || len(asked) == 0 {
		return err
	}
	text, err := json.Marshal(asked)
	labels[launch.LabelSettings] = string(text)
	return err
}

// differs returns an error that names the first setting that a request sets and its owner's sandbox does not have.
// A setting that the request leaves out may be any. One that cannot be compared differs.
func differs(b *runtime.Sandbox, p *Params) error {
	asked, err := p.asked()
	if err != nil {
		return err
	}
	var recorded map[string]json.RawMessage
	_ = json.Unmarshal([]byte(b.Labels[launch.LabelSettings]), &recorded) // what is damaged differs
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		has, is := recorded[name]
		switch { // what the sandbox has counts more than what was asked for
		case name == "cow":
			has, err = json.Marshal(b.CopyOnWrite)
		case name == "network":
			has, err = json.Marshal(b.Network)
		case name == "runtime":
			has, err = json.Marshal(b.Runtime)
		case name == "codebase" && !is:
			has, err = json.Marshal(b.CodebasePath)
		case !is:
			has = []byte("what the service's own configuration says")
		}
		if err != nil {
			return err
		}
		if string(has) != string(asked[name]) {
			return runtime.Errorf(runtime.ErrConflict, "sandbox %s: its %s is %s, and the request asks for %s: leave %s out, or destroy the sandbox to get one that has it",
				b.ID, name, has, asked[name], name)
		}
	}
	return nil
}
