package sandboxflags

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"wolffia/internal/config"
	"wolffia/runtime"
	"wolffia/service/quota"
	"wolffia/service/registry"
)

// ParseQuotas reads the flags --quota. An error is of class [runtime.ErrInvalid].
func ParseQuotas(texts []string) (rules []quota.Rule, err error) {
	for _, text := range texts {
		rule, err := parseQuota(text)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "--quota %q: %w", text, err)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// parseQuota reads WHO=NAME:AMOUNT[,NAME:AMOUNT...]; a space does as well as a comma.
func parseQuota(text string) (r quota.Rule, err error) {
	who, amounts, _ := strings.Cut(text, "=")
	key, isKey := strings.CutPrefix(who, "key:")
	parts := strings.Split(who, "/")
	switch {
	case isKey && key != "":
		r.Key = key
	case !isKey && len(parts) == 3:
		r.Owner = registry.Owner{OrganizationID: parts[0], ProjectID: parts[1], UserID: parts[2]}
		if _, err := registry.ParseOwner(strings.ReplaceAll(who, "*", "any")); err != nil {
			return r, err
		}
	default:
		return r, errors.New("it must be ORG/PROJECT/USER=sandboxes:10,memory:8g or key:NAME=requests:20")
	}
	bounds := strings.FieldsFunc(amounts, func(c rune) bool { return c == ',' || c == ' ' })
	if len(bounds) == 0 {
		return r, errors.New("no bound: write one after =, such as sandboxes:10")
	}
	for _, bound := range bounds {
		if err := setBound(&r.Quota, bound); err != nil {
			return r, err
		}
	}
	if r.Key == "" && r.Requests > 0 {
		return r, fmt.Errorf("requests are counted for API keys: write key:NAME=requests:%d", r.Requests)
	}
	if r.Key != "" && r.Templates+r.Volumes > 0 {
		return r, errors.New("templates and volumes are counted for owners: write ORG/PROJECT/USER=volumes:10")
	}
	return r, nil
}

// setBound sets one bound, NAME:AMOUNT.
func setBound(q *quota.Quota, bound string) (err error) {
	name, value, _ := strings.Cut(bound, ":")
	counts := map[string]*int{
		"sandboxes": &q.Sandboxes, "creates": &q.Creates, "requests": &q.Requests, "templates": &q.Templates, "volumes": &q.Volumes,
	}
	sizes := map[string]*int64{"memory": &q.Memory, "disk": &q.Disk}
	switch {
	case counts[name] != nil:
		if *counts[name], err = strconv.Atoi(value); err == nil && *counts[name] <= 0 {
			err = errors.New("not above 0")
		}
	case sizes[name] != nil:
		if *sizes[name], err = config.ParseSize(value); err == nil && *sizes[name] <= 0 {
			err = errors.New("not above 0")
		}
	default:
		return fmt.Errorf("unknown bound %q: want sandboxes, memory, disk, creates, requests, templates or volumes", name)
	}
	if err != nil {
		return fmt.Errorf("%s %q: it must be a number above 0, of memory and disk also such as 8g: %w", name, value, err)
	}
	return nil
}
