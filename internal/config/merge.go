package config

import (
	"errors"
	"fmt"
	"slices"

	"wolffia/fields"
)

// A Request is what to merge. A file that is nil does not exist.
type Request struct {
	Keys     []fields.Field // what the files can have
	User     *File
	Project  *File
	UserName string    // the user's file, for messages, also if it does not exist
	Builtin  []Profile // the profiles that wolffia has
	Profile  *string   // the profile named on the command line, "" for none; nil: none is named
}

// Merge returns the settings that hold, the weakest first: those of the user's file, its
// profile, the project's file, its profile, and the profile named on the command line,
// which replaces the profiles that the files name. Of a key that is not a List the last
// one decides. What the project sets beyond the user's settings is an error, and so is an
// unknown profile.
func Merge(r *Request) ([]Setting, error) {
	var out []Setting
	if r.User != nil {
		out = append(out, r.User.Settings...)
		if s := r.User.Profile; s != nil && r.Profile == nil {
			more, err := r.profile(s.Values[0], false)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.Source, err)
			}
			out = append(out, more...)
		}
	}
	own := slices.Clone(out)
	var errs []error
	add := func(s []Setting) {
		for i := range s {
			if s[i].Source.Project {
				errs = append(errs, bind(r.Keys, &s[i], own, r.User, r.UserName))
			}
		}
		out = append(out, s...)
	}
	if r.Project != nil {
		errs = append(errs, r.redefined(), r.closed(own))
		add(r.Project.Settings)
		if s := r.Project.Profile; s != nil && r.Profile == nil {
			more, err := r.profile(s.Values[0], true)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.Source, err)
			}
			for i := range more {
				more[i].Source.Project = true
			}
			add(more)
		}
	}
	if r.Profile != nil && *r.Profile != "" {
		more, err := r.profile(*r.Profile, true)
		if err != nil {
			return nil, fmt.Errorf("--profile: %w", err)
		}
		add(more)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

// redefined returns an error if the project has a profile with the name of one of the
// user's, which the user would expect.
func (r *Request) redefined() error {
	if r.User == nil {
		return nil
	}
	for _, p := range r.Project.Profiles {
		if i := slices.IndexFunc(r.User.Profiles, func(own Profile) bool { return own.Name == p.Name }); i >= 0 {
			return fmt.Errorf("%s:%d: profile %s: %s:%d has a profile of that name: rename one of them",
				p.Source.File, p.Source.Line, p.Name, r.UserName, r.User.Profiles[i].Source.Line)
		}
	}
	return nil
}

// closed returns an error if the project names a preset where the user has a policy file,
// whose rules may be all that the user wants.
func (r *Request) closed(own []Setting) error {
	mine, its := last(own, "policy"), last(r.Project.Settings, "preset")
	if mine == nil || its == nil {
		return nil
	}
	return fmt.Errorf("%s: preset: %s names a policy file, which decides: remove the line", its.Source, mine.Source)
}

// profile returns the settings of a profile: the project's (if project is set), the user's,
// or a built-in one.
func (r *Request) profile(name string, project bool) ([]Setting, error) {
	var names []string
	for _, p := range r.Profiles(project) {
		if p.Name == name {
			return slices.Clone(p.Settings), nil
		}
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("unknown profile %q%s", name, suggestion(name, names))
}

// Profiles returns the profiles that can be named, those of the project first; without
// them unless project is set. Of a name only the first one counts.
func (r *Request) Profiles(project bool) (out []Profile) {
	add := func(profiles []Profile) {
		for _, p := range profiles {
			if !slices.ContainsFunc(out, func(q Profile) bool { return q.Name == p.Name }) {
				out = append(out, p)
			}
		}
	}
	if project && r.Project != nil {
		add(r.Project.Profiles)
	}
	if r.User != nil {
		add(r.User.Profiles)
	}
	add(r.Builtin)
	return out
}

// Codebase returns the codebase that the user's file or its profiles name, "" for none.
func (r *Request) Codebase() string {
	if r.User == nil {
		return ""
	}
	settings := r.User.Settings
	name := r.Profile
	if s := r.User.Profile; name == nil && s != nil {
		name = &s.Values[0]
	}
	if name != nil {
		if more, err := r.profile(*name, false); err == nil { // Merge reports an unknown one
			settings = slices.Concat(settings, more)
		}
	}
	if s := last(settings, "codebase"); s != nil {
		return s.Values[0]
	}
	return ""
}
