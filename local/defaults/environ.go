package defaults

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Environment returns the variables that a process starts with. None are the caller's.
func Environment(c *statedir.Config, more map[string]string) []string {
	vars := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": rootfs.Home(c), "USER": c.User, "LOGNAME": c.User,
		"LANG": "C.UTF-8", "SHELL": "/bin/sh",
	}
	if c.Root {
		vars["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	if c.Git != nil {
		vars["GIT_CONFIG_SYSTEM"] = launch.GitPath + "/config"
	}
	switch NetworkOf(c) {
	case runtime.NetworkFiltered:
		maps.Copy(vars, proxyVariables(rootfs.Hostname(c)))
		maps.Copy(vars, oneRetry)
	case runtime.NetworkNone:
		maps.Copy(vars, noRetries)
	}
	maps.Copy(vars, c.Env)
	maps.Copy(vars, more)
	if c.Root {
		// a PATH of the caller's lacks them
		for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin", launch.SudoDir} {
			if !slices.Contains(strings.Split(vars["PATH"], ":"), dir) {
				vars["PATH"] += ":" + dir
			}
		}
	}
	return Pairs(vars)
}

// noRetries are the variables by which programs that try again for long, though a name does not
// exist, fail at once without a network: npm takes 72 seconds otherwise, pip 8 more.
var noRetries = map[string]string{"npm_config_fetch_retries": "0", "PIP_RETRIES": "0"}

// oneRetry is noRetries for a network that refuses names: a refusal is the same the second time.
var oneRetry = map[string]string{"npm_config_fetch_retries": "1", "PIP_RETRIES": "1"}

// proxyVariables returns the variables by which programs find the proxy inside, which does not
// lead to servers of the sandbox itself, whose host name hostname is. Not ALL_PROXY: programs
// without SOCKS fail with it, and they work without a proxy too.
func proxyVariables(hostname string) map[string]string {
	vars := map[string]string{}
	// not all programs know ranges
	direct := "localhost,127.0.0.1,127.0.0.0/8,::1,[::1],0.0.0.0," + hostname
	for name, value := range map[string]string{
		"HTTP_PROXY": "http://" + launch.HTTPProxy, "HTTPS_PROXY": "http://" + launch.HTTPProxy, "NO_PROXY": direct,
	} {
		vars[name], vars[strings.ToLower(name)] = value, value
	}
	return vars
}

// IsProxyVariable reports whether a variable names a proxy. An image can have those of the
// host that built it.
func IsProxyVariable(name string) bool {
	return slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY"}, strings.ToUpper(name))
}

// Pairs returns variables as NAME=VALUE, sorted.
func Pairs(vars map[string]string) []string {
	list := make([]string, 0, len(vars))
	for k, v := range vars {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

// NetworkOf returns the network of a sandbox.
func NetworkOf(c *statedir.Config) runtime.Network { return cmp.Or(c.Network, runtime.NetworkNone) }
