package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wolffia/fields"
	"wolffia/network"
)

// bind returns an error if the project's setting is more than the user allows. own are
// the user's settings.
func bind(keys []fields.Field, s *Setting, own []Setting, user *File, userName string) error {
	k := known(keys, s.Key)
	if len(s.Values) == 0 {
		return nil // an empty list
	}
	if user != nil && slices.Contains(user.Allow, s.Key) {
		return nil
	}
	mine := last(own, s.Key)
	b := k.Bound
	problem, because := "", b.Because
	how := b.How
	if b.Refuse != "" && slices.ContainsFunc(s.Values, func(v string) bool { return strings.Contains(v, b.Refuse) }) {
		how = fields.Deny
	}
	switch how {
	case fields.Deny:
		if because == "" {
			because = "it is not known to be harmless"
		}
		problem = "a project's file may not set it, since " + because
	case fields.Named:
		for _, v := range s.Values {
			if !strings.Contains(v, "=") && !slices.Contains(all(own, s.Key), v) {
				problem = fmt.Sprintf("a project's file may not take the variable %q of the host", v)
			}
		}
	case fields.Same:
		if mine != nil && !slices.Equal(mine.Values, s.Values) {
			problem = fmt.Sprintf("%q is not %q", strings.Join(s.Values, ","), strings.Join(mine.Values, ","))
		}
	case fields.Ranked:
		limit := b.Normal
		if hosts := last(own, keyAllowHost); s.Key == keyNetwork && mine == nil && hosts != nil {
			mine, limit = hosts, "filtered"
		} else if mine != nil && len(mine.Values) > 0 {
			limit = mine.Values[0]
		}
		if v := s.Values[0]; limit != "" && v != limit && !earlier(k.Order(), v, limit) {
			problem = fmt.Sprintf("%s gives more than %s", v, limit)
		}
	case fields.Most:
		problem = exceeds(k, s, mine)
	case fields.Hosts:
		for _, v := range s.Values {
			if strings.HasSuffix(v, network.PrivateSuffix) && !slices.Contains(all(own, s.Key), v) {
				problem = fmt.Sprintf("%q: a project's file may not lead names to private addresses", v)
			}
		}
		if problem != "" {
			break
		}
		if problem = widensNames(s, own); problem != "" {
			if net := last(own, keyNetwork); net != nil {
				mine = net
			}
		}
	case fields.Never:
		problem = "a project's file may not set it"
	case fields.Free, fields.Ordered:
	}
	if problem == "" {
		return nil
	}
	if mine != nil && how != fields.Deny && how != fields.Named {
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
func exceeds(k *fields.Field, s, mine *Setting) string {
	if mine == nil {
		return ""
	}
	want, err := amount(k, s.Values[0])
	limit, err2 := amount(k, mine.Values[0])
	if err == nil && err2 == nil && want <= limit {
		return ""
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

// Widens returns the settings of the project's file, also in its profiles, that may give a sandbox
// more than it has without them. Those of a profile that the file names and does not have are
// returned with the place of the name, and with "profile NAME: " before the key.
func Widens(r *Request) (out []Setting) {
	check := r.Project.Settings
	for _, p := range r.Project.Profiles {
		check = slices.Concat(check, p.Settings)
	}
	for _, s := range check {
		if widens(r.Keys, &s) {
			out = append(out, s)
		}
	}
	selected := r.Project.Profile
	if selected == nil {
		return out
	}
	more, _ := r.profile(selected.Values[0], true) // Merge reports an unknown one
	for _, s := range more {
		if !s.Source.Project && widens(r.Keys, &s) {
			out = append(out, Setting{Key: "profile " + selected.Values[0] + ": " + s.Key, Values: s.Values, Source: selected.Source})
		}
	}
	return out
}

// widens reports whether a setting may give a sandbox more than it has without it.
func widens(keys []fields.Field, s *Setting) bool {
	k := known(keys, s.Key)
	if len(s.Values) == 0 {
		return false
	}
	switch b := k.Bound; b.How {
	case fields.Ranked:
		order := k.Order()
		normal := cmp.Or(b.Normal, order[0])
		return s.Values[0] != normal && !earlier(order, s.Values[0], normal)
	case fields.Named:
		return slices.ContainsFunc(s.Values, func(v string) bool { return !strings.Contains(v, "=") })
	case fields.Deny:
		return true
	default:
		return b.Widens
	}
}
