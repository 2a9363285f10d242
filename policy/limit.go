package policy

import (
	"fmt"
	"slices"

	"wolffia/perm"
	"wolffia/runtime"
)

// priorityLimit is that of limits: they outrank reveals.
const priorityLimit = perm.PriorityReveal + 1000

// Limits returns rules to append to [Policy].Rules that only lower the levels of these: each is a
// limit, so that no rule, and no other limit, undoes it. preset is the name of a preset whose
// rules are limits; "" means none. rules are texts for [perm.ParseRule]. An error is of class
// runtime.ErrInvalid.
func Limits(preset string, rules []string) ([]perm.Rule, error) {
	var limits []perm.Rule
	if preset != "" {
		p, err := perm.PresetByName(preset)
		if err != nil {
			return nil, invalid(err)
		}
		limits = slices.DeleteFunc(p.Rules, func(r perm.Rule) bool { return r.Level == perm.Write })
		if len(limits) == 0 {
			return nil, runtime.Errorf(runtime.ErrInvalid, "preset %s: it takes nothing away: leave it out", preset)
		}
	}
	for _, text := range rules {
		r, err := perm.ParseRule(text)
		if err != nil {
			return nil, invalid(err)
		}
		if r.Level == perm.Write {
			return nil, runtime.Errorf(runtime.ErrInvalid, "rule %q: it can only take away: its level must be none, view or read", text)
		}
		limits = append(limits, r)
	}
	for i := range limits {
		r := &limits[i]
		r.AtMost, r.Priority = r.Level > perm.None, priorityLimit
		r.Source = fmt.Sprintf("request:%d", i+1) // as of a file: so ChoiceOf keeps it
	}
	if err := perm.Check(limits); err != nil {
		return nil, runtime.WithClass(runtime.ErrInvalid, err)
	}
	return limits, nil
}
