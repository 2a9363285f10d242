package main

import (
	"strings"

	"wolffia/runtime"
)

// warnLimits tells what of --limits best-effort is less than was asked for.
func (a *app) warnLimits(l *runtime.LimitsState) {
	if l == nil {
		return
	}
	if l.Memory == runtime.ByRlimit {
		a.warn("--memory binds each process for itself, its private memory only; the sandbox as a whole can use more")
	}
	var lacking []string
	for _, limit := range []struct {
		flag string
		by   runtime.Enforcement
	}{{"--memory", l.Memory}, {"--cpus", l.CPUs}, {"--pids", l.PIDs}} {
		if limit.by == runtime.ByNothing {
			lacking = append(lacking, limit.flag)
		}
	}
	if len(lacking) > 0 {
		a.warn("nothing keeps %s on this host; wolffia doctor says what helps", strings.Join(lacking, ", "))
	}
}

// limitsText puts what keeps limits on one line.
func limitsText(l *runtime.LimitsState) string {
	var all []string
	for _, limit := range []struct {
		name string
		by   runtime.Enforcement
	}{{"memory", l.Memory}, {"cpus", l.CPUs}, {"pids", l.PIDs}} {
		if limit.by != "" {
			all = append(all, limit.name+" by "+string(limit.by))
		}
	}
	return strings.Join(all, ", ")
}
