// Package archtest checks the rules of ARCHITECTURE.md that a program can
// check: who may import whom, and calls that are banned with their reason.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "wolffia"

// allow lists, for each package, the only packages of this module that its
// non-test files may import. A package missing here may import none.
var allow = map[string][]string{
	"network":                           {},
	"fields":                            {},
	"runtime":                           {"network", "perm"},
	"runtime/launch":                    {"runtime"},
	"runtime/runtimetest":               {"network", "runtime", "runtime/launch", "perm", "internal/*", "internal/sys/*", "internal/host/*", "internal/git/*", "internal/test/*"},
	"runtime/mock":                      {"runtime", "perm", "internal/*", "internal/sys/*", "internal/host/*", "internal/git/*", "internal/test/*"},
	"runtime/backends":                  {"runtime/bwrap", "runtime/docker", "runtime/gvisor", "runtime/kubernetes", "runtime/launch"},
	"runtime/bwrap":                     {"runtime", "runtime/launch", "internal/sys/bubblewrap", "internal/sys/child", "internal/sys/userns", "internal/sys/hostpath"},
	"runtime/gvisor":                    {"runtime", "runtime/launch", "internal/sys/child", "internal/sys/userns", "internal/sys/runsc", "internal/sys/timerslack"},
	"runtime/docker":                    {"runtime", "runtime/launch"},
	"runtime/kubernetes":                {"runtime", "runtime/launch"},
	"keeper/engine":                     {"internal/pathname", "keeper/mark", "runtime", "runtime/launch", "internal/host/boot", "internal/sys/cleanup", "internal/sys/proc"},
	"keeper/cluster":                    {"internal/host/boot", "internal/sys/cleanup", "internal/sys/rawsock", "keeper/mark", "runtime", "runtime/launch"},
	"keeper/mark":                       {},
	"keeper":                            {"runtime", "runtime/launch", "keeper/mark", "fusefs/fusemount", "internal/host/boot", "internal/sys/rmtree", "internal/host/rootfs", "internal/sys/step"},
	"internal/host/gateway":             {"network", "internal/host/egress", "internal/host/inside", "internal/urlpath"},
	"internal/host/egress":              {"network", "internal/host/inside"},
	"toolchain":                         {"internal/pathname", "runtime"},
	"perm":                              {"perm/plainyaml"},
	"policy":                            {"network", "perm", "runtime", "internal/git/gitscan", "internal/host/statedir", "internal/sys/dirents"},
	"ops":                               {"perm", "runtime", "internal/jsontext", "internal/filecall", "internal/fileclient"},
	"ops/stream":                        {"runtime"},
	"ops/code":                          {"ops", "runtime"},
	"service":                           {"internal/pathname", "fields", "network", "ops", "ops/code", "perm", "fusefs/audit", "runtime", "runtime/launch", "service/registry", "internal/archive", "internal/filecall", "internal/fileclient", "internal/jsontext", "internal/sys/statefile", "internal/sys/step", "service/meter", "service/quota"},
	"service/meter":                     {"runtime", "service/registry"},
	"service/quota":                     {"runtime", "service/registry"},
	"service/registry":                  {"runtime", "internal/sys/filelock", "internal/sys/statefile"},
	"service/gate":                      {"runtime", "service", "service/registry", "service/quota"},
	"service/agent":                     {"mcp", "runtime", "service", "service/gate", "service/registry"},
	"service/opensandbox":               {"fields", "network", "ops", "ops/code", "ops/stream", "runtime", "service", "service/gate", "service/port", "internal/openapi", "internal/urlpath", "internal/filecall", "internal/fileclient"},
	"service/port":                      {"internal/urlpath", "ops/stream", "runtime", "service", "service/gate"},
	"service/e2b":                       {"service/e2b/steps", "internal/image/buildcontext", "internal/sys/rmtree", "network", "ops", "volume", "ops/stream", "runtime", "service", "service/e2b/envd", "service/gate", "service/port", "service/registry", "service/quota", "internal/filecall", "service/e2b/fault", "service/e2b/interpreter"},
	"service/container/files":           {"internal/excerpt", "internal/filecall", "ops", "runtime", "runtime/launch", "service"},
	"service/container/view":            {"image/store", "runtime", "service/container"},
	"service/container":                 {"image/store", "internal/excerpt", "internal/filecall", "internal/shellword", "internal/sys/proc", "ops", "runtime", "runtime/launch", "service"},
	"service/engineapi":                 {"internal/image/buildcontext", "image/store", "internal/sys/rmtree", "ops", "ops/stream", "runtime", "service", "service/container", "service/container/files", "service/container/view", "service/gate"},
	"service/swerex":                    {"ops", "ops/stream", "runtime", "service", "service/gate", "internal/filecall"},
	"service/console":                   {"internal/filecall", "internal/jsontext", "network", "ops", "ops/stream", "perm", "runtime", "service", "service/gate", "service/registry"},
	"service/e2b/steps":                 {"runtime"},
	"service/e2b/fault":                 {"ops", "runtime", "service/gate"},
	"internal/image/buildcontext":       {"runtime"},
	"service/e2b/envd":                  {"ops", "ops/stream", "runtime", "service", "service/e2b/fault", "service/gate", "internal/dirwatch", "internal/filecall", "internal/fileclient"},
	"service/e2b/interpreter":           {"ops/code", "ops/stream", "runtime", "service", "service/e2b/fault"},
	"service/server":                    {"fields", "network", "ops", "ops/stream", "runtime", "service", "service/gate", "service/registry", "internal/sys/filelock", "internal/jsontext", "internal/openapi", "service/meter"},
	"image":                             {"network", "runtime", "image/store", "image/maker", "internal/image/dockerparse", "internal/image/layers", "internal/image/recipe", "internal/sys/overlay", "internal/sys/rmtree", "internal/sys/step"},
	"cmd/wolffia/internal/build":        {"cmd/wolffia/internal/attach", "cmd/wolffia/internal/console", "cmd/wolffia/internal/hint", "cmd/wolffia/internal/host", "cmd/wolffia/internal/sandboxflags", "image/maker", "image/store", "internal/excerpt", "internal/image/dockerfile", "internal/sys/beneath", "internal/sys/userns", "local", "local/defaults", "runtime"},
	"internal/image/dockerfile":         {"image/maker"},
	"internal/image/dockerparse":        {"image/maker", "internal/image/dockerfile", "runtime"},
	"internal/image/layers":             {"runtime", "image/store", "internal/sys/beneath", "internal/sys/rmtree"},
	"image/maker":                       {"runtime", "image/store", "internal/host/boot", "internal/sys/child", "internal/sys/userns"},
	"internal/image/recipe":             {"runtime", "image/maker", "internal/sys/beneath", "internal/sys/rmtree"},
	"image/puller":                      {"runtime", "internal/host/boot", "internal/excerpt"},
	"image/store":                       {"runtime", "internal/sys/step", "internal/sys/beneath", "internal/sys/filelock", "internal/sys/rmtree", "internal/host/statedir", "internal/sys/statefile"},
	"fusefs":                            {"perm", "fusefs/cow", "fusefs/device", "fusefs/echo", "fusefs/fanotify", "fusefs/gate", "internal/sys/beneath", "internal/git/gitguard", "internal/git/gitindex", "internal/sys/proc", "fusefs/backing"},
	"fusefs/backing":                    {"fusefs/cow", "internal/sys/beneath", "internal/sys/proc"},
	"fusefs/fusemount":                  {"internal/sys/fusermount"},
	"fusefs/audit":                      {"perm", "runtime"},
	"fusefs/device":                     {},
	"fusefs/fanotify":                   {},
	"fusefs/echo":                       {"internal/sys/beneath", "internal/sys/proc"},
	"fusefs/gate":                       {"perm"},
	"fusefs/cow":                        {"perm", "runtime", "internal/sys/beneath", "internal/git/gitguard", "internal/sys/rmtree", "internal/sys/step"},
	"fusefs/carry":                      {"fusefs", "fusefs/cow", "internal/replica", "internal/sys/beneath"},
	"internal/replica":                  {"internal/archive", "internal/filecall", "internal/sys/beneath"},
	"fusefs/treeserver":                 {"runtime", "perm", "fusefs", "fusefs/audit", "fusefs/carry", "fusefs/cow", "internal/replica", "internal/archive", "internal/sys/beneath", "internal/host/boot", "internal/sys/rawsock", "internal/git/gitstore", "internal/sys/rmtree", "internal/host/statedir", "internal/sys/step"},
	"guest":                             {"wire", "session", "session/dialect", "internal/sys/proc", "internal/sys/coredump", "internal/sys/rawsock", "internal/sys/timerslack", "internal/sys/tinyprogram"},
	"session":                           {"session/dialect", "wire", "internal/sys/proc", "internal/excerpt"},
	"session/dialect":                   {},
	"wire/client":                       {"wire"},
	"volume":                            {"runtime", "internal/sys/beneath", "internal/sys/filelock", "internal/sys/rmtree", "internal/host/statedir", "internal/sys/statefile", "internal/sys/step"},
	"local":                             {"fields", "fusefs/audit", "fusefs/cow", "image/store", "internal/excerpt", "internal/feed", "internal/git/gitsync", "internal/host/boot", "internal/host/cause", "internal/host/hostsocket", "internal/host/programs", "internal/host/rootfs", "internal/host/statedir", "internal/pathname", "internal/sys/beneath", "internal/sys/cgroup", "internal/sys/child", "internal/sys/cleanup", "internal/sys/coredump", "internal/sys/filelock", "internal/sys/fusermount", "internal/sys/hostpath", "internal/sys/proc", "internal/sys/rawsock", "internal/sys/rmtree", "internal/sys/statefile", "internal/sys/step", "internal/sys/timerslack", "internal/sys/userns", "local/defaults", "local/reposync", "network", "perm", "runtime", "runtime/launch", "volume", "wire", "wire/client", "local/conns", "local/kept", "local/pool"},
	"local/pool":                        {"internal/host/statedir", "internal/sys/child", "internal/sys/filelock", "internal/sys/statefile", "internal/sys/timerslack", "runtime"},
	"local/kept":                        {"internal/host/boot", "internal/host/statedir", "internal/sys/beneath", "internal/sys/rmtree", "runtime", "runtime/launch"},
	"local/conns":                       {"internal/host/boot", "internal/host/statedir", "internal/sys/rawsock", "runtime", "wire", "wire/client"},
	"local/defaults":                    {"fusefs/cow", "internal/git/gitpairs", "internal/git/hostgit", "internal/host/cause", "internal/host/rootfs", "internal/host/statedir", "internal/sys/fusermount", "internal/sys/userns", "runtime", "runtime/launch", "volume"},
	"local/reposync":                    {"perm", "runtime", "fusefs/cow", "internal/sys/beneath", "internal/host/boot", "internal/sys/filelock", "internal/git/gitcopy", "internal/git/gitpairs", "internal/git/gitsync", "internal/git/hostgit", "internal/sys/rmtree", "internal/host/statedir", "internal/sys/statefile", "internal/sys/step"},
	"shim/prefetch":                     {"internal/sys/beneath"},
	"shim/program":                      {"internal/sys/rmtree", "internal/sys/userns", "shim", "internal/sys/child", "internal/host/egress", "runtime/backends"},
	"shim":                              {"network", "runtime", "runtime/launch", "shim/prefetch", "fusefs/audit", "fusefs/echo", "fusefs/fusemount", "wire", "wire/client", "internal/host/boot", "internal/sys/cgroup", "internal/host/egress", "internal/git/gitstore", "internal/host/hostsocket", "internal/host/inside", "internal/sys/proc", "internal/sys/rawsock", "internal/host/rootfs", "internal/host/statedir", "internal/host/staticfs", "internal/sys/step"},
	"session/sessiontest":               {"runtime", "internal/test/suite", "internal/test/testenv"},
	"internal/host/boot":                {"network", "runtime", "runtime/launch", "perm", "internal/sys/coredump", "internal/host/statedir", "internal/host/staticfs", "internal/sys/step", "internal/sys/hostpath"},
	"internal/sys/seccomp/gen":          {"runtime/launch", "internal/sys/seccomp"},
	"internal/host/rootfs":              {"internal/pathname", "internal/sys/dirents", "runtime", "runtime/launch", "perm", "internal/host/boot", "internal/git/gitask", "internal/sys/beneath", "internal/sys/overlay", "internal/sys/rmtree", "internal/sys/seccomp", "internal/host/statedir", "internal/host/staticfs"},
	"internal/host/staticfs":            {"runtime", "perm", "internal/sys/beneath"},
	"internal/filecall":                 {"internal/archive", "internal/dirwatch"},
	"internal/fileclient":               {"internal/filecall", "runtime", "runtime/launch"},
	"internal/git/gitguard":             {"internal/git/gitconfig"},
	"internal/git/gituser":              {"internal/git/gitconfig"},
	"internal/git/gitscan":              {"internal/sys/beneath", "internal/sys/dirents", "internal/git/gitconfig", "internal/git/gitguard", "internal/git/gitindex"},
	"internal/git/hostgit":              {"internal/sys/beneath", "internal/excerpt", "internal/sys/rmtree", "runtime", "internal/sys/hostpath"},
	"internal/git/gitask":               {"internal/sys/tinyprogram"},
	"internal/git/gitindex":             {"internal/sys/beneath"},
	"internal/git/gitcopy":              {"internal/sys/beneath", "internal/sys/filelock", "internal/git/gitconfig", "internal/git/gitindex", "internal/sys/rmtree", "internal/sys/statefile"},
	"internal/git/gitpairs":             {"internal/sys/beneath", "internal/sys/statefile", "runtime"},
	"internal/git/gitstore":             {"internal/sys/beneath", "internal/git/gitcopy", "internal/git/gitsync", "internal/sys/rmtree", "internal/host/statedir"},
	"internal/git/gitsync":              {"runtime", "internal/sys/beneath", "internal/sys/filelock", "internal/git/gitconfig", "internal/git/gitindex", "internal/git/hostgit", "internal/sys/statefile", "internal/sys/step", "internal/shellword"},
	"internal/host/hostsocket":          {"runtime"},
	"internal/host/inside":              {"internal/sys/rawsock", "wire", "wire/client"},
	"internal/sys/rmtree":               {"internal/sys/beneath"},
	"internal/host/statedir":            {"fields", "perm", "runtime", "internal/sys/filelock", "internal/sys/proc", "internal/sys/rmtree", "internal/sys/statefile", "internal/sys/step"},
	"internal/sys/hostpath":             {"internal/pathname"},
	"internal/sys/bubblewrap":           {"internal/sys/hostpath"},
	"internal/sys/fusermount":           {"internal/sys/hostpath"},
	"internal/sys/statefile":            {"internal/sys/step"},
	"internal/sys/cgroup":               {"internal/sys/proc"},
	"internal/sys/child":                {"internal/sys/timerslack"},
	"internal/sys/userns":               {"internal/sys/child", "internal/sys/tinyprogram"},
	"internal/host/cause":               {"internal/shellword"},
	"internal/host/programs":            {"runtime", "internal/sys/filelock", "internal/sys/rmtree", "internal/sys/statefile", "internal/sys/step", "internal/sys/tinyprogram", "internal/sys/hostpath"},
	"internal/host/programs/pack":       {"internal/host/programs"},
	"internal/config":                   {"fields", "network", "perm", "perm/plainyaml"},
	"internal/host/probe":               {"internal/host/cause", "internal/sys/bubblewrap", "internal/sys/userns", "internal/sys/runsc", "internal/sys/cgroup", "internal/sys/fusermount", "internal/sys/rmtree", "internal/sys/hostpath", "internal/sys/tinyprogram"},
	"internal/test/resulttest":          {"perm", "runtime"},
	"internal/test/launchtest":          {"runtime", "runtime/launch"},
	"internal/test/shimtest":            {"runtime", "runtime/runtimetest", "session/sessiontest", "runtime/launch", "local", "perm", "image/store", "internal/*", "internal/sys/*", "internal/host/*", "internal/git/*", "internal/test/*"},
	"internal/test/dockertest":          {"internal/test/wait"},
	"internal/test/leak":                {"internal/test/wait"},
	"internal/test/dockertest/with":     {"internal/test/dockertest"},
	"internal/test/suite":               {"internal/test/wait"},
	"internal/test/transcript":          {"internal/test/wait"},
	"internal/test/testimage":           {"image/store", "internal/test/testenv"},
	"internal/test/packaged":            {"internal/sys/rmtree", "internal/test/testenv"},
	"internal/test/testenv":             {"internal/sys/userns", "internal/host/probe"},
	"internal/test/mounttest":           {"internal/test/testenv"},
	"internal/test/remains":             {"internal/sys/proc"},
	"internal/test/browser":             {"internal/test/testenv", "internal/test/wait"},
	"bench":                             {"..."},
	"internal/test/servetest":           {"..."},
	"internal/test/attack/inside":       {"internal/test/attack"},
	"internal/test/attack/attacktest":   {"runtime", "perm", "internal/*", "internal/sys/*", "internal/host/*", "internal/git/*", "internal/test/*"},
	"internal/test/crashtest/service":   {"perm", "runtime", "runtime/bwrap", "service/registry", "service", "local"},
	"cmd/wolffia":                       {"..."},
	"cmd/wolffia/internal/agent":        {"internal/config", "local", "ops", "runtime", "toolchain"},
	"cmd/wolffia/internal/asker":        {"cmd/wolffia/internal/console", "cmd/wolffia/internal/host", "cmd/wolffia/internal/sandboxflags", "fields", "internal/config", "internal/host/statedir", "internal/sys/statefile", "internal/sys/step", "local", "perm", "runtime", "cmd/wolffia/internal/history"},
	"cmd/wolffia/internal/attach":       {"cmd/wolffia/internal/asker", "cmd/wolffia/internal/console", "cmd/wolffia/internal/forward", "cmd/wolffia/internal/hint", "cmd/wolffia/internal/history", "cmd/wolffia/internal/host", "cmd/wolffia/internal/hostdir", "cmd/wolffia/internal/signals", "internal/excerpt", "internal/feed", "local", "ops", "perm", "runtime", "wire", "internal/shellword"},
	"cmd/wolffia/internal/sandboxflags": {"internal/pathname", "cmd/wolffia/internal/console", "cmd/wolffia/internal/host", "cmd/wolffia/internal/hostdir", "cmd/wolffia/internal/worktree", "fields", "image/store", "internal/config", "internal/git/gitconfig", "internal/git/gituser", "internal/git/hostgit", "internal/host/statedir", "internal/host/staticfs", "local", "network", "perm", "policy", "runtime", "runtime/launch", "service", "service/registry", "toolchain", "volume", "internal/sys/hostpath", "service/quota"},
	"cmd/wolffia/internal/dockercli":    {"cmd/wolffia/internal/attach", "cmd/wolffia/internal/build", "cmd/wolffia/internal/console", "cmd/wolffia/internal/host", "cmd/wolffia/internal/sandboxflags", "fields", "image/puller", "image/store", "local", "local/defaults", "runtime", "service", "service/container", "service/container/files", "service/container/view"},
	"cmd/wolffia/internal/complete":     {"cmd/wolffia/internal/sandboxflags", "cmd/wolffia/internal/console", "cmd/wolffia/internal/host", "cmd/wolffia/internal/review", "fields", "image/store", "internal/host/statedir", "local", "network", "perm", "runtime", "runtime/backends", "volume"},
	"cmd/wolffia/internal/console":      {"fields", "runtime"},
	"cmd/wolffia/internal/forward":      {"cmd/wolffia/internal/console", "cmd/wolffia/internal/host", "internal/host/inside", "internal/sys/rawsock", "local", "runtime"},
	"cmd/wolffia/internal/history":      {"internal/host/statedir", "runtime"},
	"cmd/wolffia/internal/reach":        {"internal/host/probe", "network"},
	"cmd/wolffia/internal/why":          {"cmd/wolffia/internal/attach", "cmd/wolffia/internal/console", "cmd/wolffia/internal/history", "cmd/wolffia/internal/host", "cmd/wolffia/internal/hostdir", "internal/pathname", "local", "runtime", "internal/shellword"},
	"cmd/wolffia/internal/hint":         {"internal/pathname", "cmd/wolffia/internal/console", "cmd/wolffia/internal/host", "cmd/wolffia/internal/hostdir", "internal/excerpt", "local", "network", "ops", "perm", "runtime", "toolchain", "internal/shellword"},
	"cmd/wolffia/internal/host":         {"cmd/wolffia/internal/console", "cmd/wolffia/internal/signals", "image/maker", "image/puller", "image/store", "internal/host/cause", "internal/host/programs", "internal/host/statedir", "internal/shellword", "internal/sys/userns", "local", "local/defaults", "runtime", "runtime/backends", "runtime/launch", "toolchain"},
	"cmd/wolffia/internal/hostdir":      {"internal/config", "internal/pathname", "runtime"},
	"cmd/wolffia/internal/review":       {"cmd/wolffia/internal/console", "cmd/wolffia/internal/host", "cmd/wolffia/internal/usage", "cmd/wolffia/internal/worktree", "fusefs/cow", "internal/git/gitsync", "local", "runtime", "internal/sys/hostpath", "cmd/wolffia/internal/history"},
	"cmd/wolffia/internal/serving":      {"cmd/wolffia/internal/asker", "internal/pathname", "cmd/wolffia/internal/attach", "cmd/wolffia/internal/build", "cmd/wolffia/internal/sandboxflags", "cmd/wolffia/internal/console", "cmd/wolffia/internal/host", "cmd/wolffia/internal/review", "cmd/wolffia/internal/signals", "cmd/wolffia/internal/usage", "fields", "image/puller", "image/store", "internal/host/rootfs", "local", "mcp", "network", "ops/stream", "policy", "runtime", "runtime/launch", "service", "service/agent", "service/container", "service/engineapi", "service/gate", "service/opensandbox", "service/server", "service/swerex", "service/e2b", "ops/stream", "volume", "internal/sys/hostpath", "service/meter", "service/quota", "internal/shellword", "local/defaults", "internal/host/programs", "perm", "service/console", "cmd/wolffia/internal/history"},
	"cmd/wolffia/internal/signals":      {"cmd/wolffia/internal/console"},
	"cmd/wolffia/internal/usage":        {"cmd/wolffia/internal/console", "docs", "fields", "runtime", "internal/shellword"},
	"cmd/wolffia/internal/worktree":     {"cmd/wolffia/internal/console", "cmd/wolffia/internal/host", "cmd/wolffia/internal/hostdir", "fields", "internal/git/hostgit", "local", "perm", "policy", "runtime", "internal/shellword"},
	"cmd/wolffia-box":                   {"shim/program"},
	"cmd/wolffia-net":                   {"shim/program", "internal/host/gateway"},
	"cmd/wolffia-tree":                  {"fusefs/treeserver"},
	"cmd/wolffia-oci":                   {"internal/host/programs", "image", "image/maker", "image/puller", "image/store", "internal/host/boot", "keeper", "keeper/engine", "runtime", "runtime/docker"},
	"cmd/wolffia-kube":                  {"keeper", "keeper/cluster", "runtime", "runtime/kubernetes"},
	"cmd/wolffia-guest":                 {"guest", "internal/archive", "internal/filecall", "internal/replica"},
	"mcp":                               {"ops", "runtime", "runtime/launch", "perm", "image/store", "internal/excerpt", "internal/jsontext", "internal/filecall", "internal/fileclient"},
}

// never lists what must not be imported, not through another package either, with
// the reason.
var never = []struct{ importer, imported, why string }{
	{"runtime", "internal", "the contract does no I/O"},
	{"runtime/*", "internal/host", "a backend knows the contract only"},
	{"runtime/*", "local", "a backend knows the contract only"},
	{"runtime/*", "shim", "a backend knows the contract only"},
	{"ops", "local", "what front ends share works with any runtime"},
	{"ops", "service", "what front ends share knows none of them"},
	{"ops/*", "service", "what front ends share knows none of them"},
	{"mcp", "service", "a front end imports no other"},
	{"mcp", "local", "a front end works with any runtime"},
	{"service/opensandbox", "service/server", "a front end imports no other"},
	{"service/opensandbox", "mcp", "a front end imports no other"},
	{"service/engineapi", "mcp", "a front end imports no other"},
	{"service/engineapi", "service/server", "a front end imports no other"},
	{"service/swerex", "mcp", "a front end imports no other"},
	{"service/console", "mcp", "a front end imports no other"},
	{"service/console", "service/server", "a front end imports no other"},
	{"service/e2b", "mcp", "a front end imports no other"},
	{"service/e2b", "service/opensandbox", "a front end imports no other"},
	{"service/e2b", "service/swerex", "a front end imports no other"},
	{"service/e2b", "service/server", "a front end imports no other"},
	{"service/server", "service/e2b", "a front end imports no other"},
	{"service/swerex", "service/opensandbox", "a front end imports no other"},
	{"service/swerex", "service/server", "a front end imports no other"},
	{"service/server", "service/swerex", "a front end imports no other"},
	{"service/server", "service/opensandbox", "a front end imports no other"},
	{"service/server", "mcp", "a front end imports no other"},
	{"service", "local", "a front end works with any runtime"},
	{"service/*", "local", "a front end works with any runtime"},
	{"shim", "local", "the process of a sandbox has none of its caller's code"},
	{"session", "guest", "PID 1 has sessions, not the other way round"},
	{"fusefs/treeserver", "local", "the process that reads what is hidden starts nothing"},
	{"fusefs/treeserver", "shim", "the process that reads what is hidden starts nothing"},
	{"internal/host/*", "fusefs", "what starts a sandbox knows nothing of how its tree is served"},
	{"internal/sys/*", "runtime", "what Linux offers knows nothing of sandboxes"},
	{"keeper", "local", "the process with access to the engine has none of its caller's code"},
	{"keeper", "shim", "the process with access to the engine does not read what the guest sends"},
	{"keeper", "wire", "the process with access to the engine does not read what the guest sends"},
}

// home lists third-party modules that a single package may import; where there
// are two, with a space between, each speaks another part of a format. * stands for a name.
var home = map[string]string{
	"github.com/hanwen/go-fuse/v2":                    "fusefs fusefs/backing fusefs/device",
	"github.com/creack/pty":                           "guest",
	"github.com/goccy/go-yaml":                        "perm/plainyaml",
	"github.com/spf13/cobra":                          "cmd/wolffia cmd/wolffia/internal/*",
	"github.com/spf13/pflag":                          "cmd/wolffia cmd/wolffia/internal/*",
	"golang.org/x/term":                               "cmd/wolffia/internal/console",
	"github.com/schollz/progressbar/v3":               "cmd/wolffia-oci",
	"github.com/google/go-containerregistry":          "image",
	"github.com/klauspost/compress":                   "image",
	"github.com/moby/patternmatcher":                  "internal/image/recipe cmd/wolffia/internal/build",
	"github.com/moby/buildkit":                        "internal/image/dockerparse cmd/wolffia/internal/build",
	"golang.org/x/sync":                               "internal/sys/filelock",
	"golang.org/x/net/idna":                           "network",
	"golang.org/x/net/http/httpguts":                  "network",
	"golang.org/x/net/dns/dnsmessage":                 "internal/host/gateway",
	"golang.org/x/net/publicsuffix":                   "internal/host/gateway",
	"golang.org/x/time":                               "internal/host/gateway service/quota",
	"go.etcd.io/bbolt":                                "service/registry",
	"github.com/docker/go-units":                      "cmd/wolffia cmd/wolffia/internal/dockercli internal/config service/container/view",
	"github.com/moby/profiles/seccomp":                "internal/sys/seccomp/gen",
	"github.com/elastic/go-seccomp-bpf":               "internal/sys/seccomp/gen",
	"github.com/opencontainers/runtime-spec/specs-go": "runtime/gvisor internal/sys/seccomp/gen",
	"wolffia/runtime/bwrap":                           "runtime/backends internal/test/crashtest/service internal/test/servetest",
	"wolffia/runtime/gvisor":                          "runtime/backends",
	"wolffia/runtime/docker":                          "runtime/backends cmd/wolffia-oci",
	"wolffia/runtime/kubernetes":                      "runtime/backends cmd/wolffia-kube",
	"wolffia/keeper/engine":                           "cmd/wolffia-oci",  // and so no other process loads the client
	"wolffia/keeper/cluster":                          "cmd/wolffia-kube", // the same
	"wolffia/keeper":                                  "cmd/wolffia-oci cmd/wolffia-kube keeper keeper/*",
	"k8s.io/client-go":                                "keeper/cluster",
	"k8s.io/apimachinery":                             "keeper/cluster",
	"k8s.io/api":                                      "keeper/cluster",
	"github.com/coreos/go-systemd/v22":                "cmd/wolffia/internal/serving internal/sys/cgroup",
	"github.com/godbus/dbus/v5":                       "internal/sys/cgroup",
	"github.com/moby/moby/client":                     "keeper/engine",
	"github.com/moby/moby/api":                        "keeper/engine",
	"github.com/containerd/errdefs":                   "keeper/engine",
	"github.com/distribution/reference":               "keeper/engine",
	"github.com/modelcontextprotocol/go-sdk":          "mcp",
	"github.com/coder/websocket":                      "service/opensandbox service/console",
	"connectrpc.com/connect":                          "service/e2b/envd",
	"github.com/bmatcuk/doublestar/v4":                "internal/filecall",
	"github.com/evanw/esbuild":                        "service/console/web/gen",
	"github.com/chromedp/chromedp":                    "internal/test/browser",
	"github.com/chromedp/cdproto":                     "internal/test/browser",
}

// banned are calls that the code does without, and why.
var banned = map[string]string{
	"os.RemoveAll":  "it goes on below mounts: remove what is known by name",
	"os.IsNotExist": "use errors.Is",
	"os.Create":     "say the mode: os.OpenFile",
	"exec.Command":  "say the whole of it, environment too: &exec.Cmd{...}",
}

// exempt are packages that are no part of the product.
var exempt = []string{"bench", "internal/test/crashtest/service", "internal/test/dockertest", "internal/test/dockertest/with", "internal/test/servetest", "internal/test/shimtest", "internal/test/testbin", "internal/test/testimage", "internal/sys/seccomp/gen", "runtime/mock", "runtime/runtimetest", "service/console/web/gen"}

func TestImportsAndCalls(t *testing.T) {
	const root = "../../.."
	seen := 0
	imports := map[string][]string{} // packages of this module that a package imports
	// Parse the files rather than run go list: the test cache tracks the files
	// that a test opens, not those that a program it runs does.
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, place := range nilErrors(fset, f) {
			t.Error(place)
		}
		pkg, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		seen++
		for _, spec := range f.Imports {
			imp := strings.Trim(spec.Path.Value, `"`)
			checkImport(t, pkg, imp)
			if rel, ours := strings.CutPrefix(imp, module+"/"); ours {
				imports[pkg] = append(imports[pkg], rel)
			}
		}
		if !slices.Contains(exempt, pkg) {
			checkCalls(t, file, f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range imports {
		for _, n := range never {
			if ok, _ := path.Match(n.importer, pkg); ok && !slices.Contains(rigs, pkg) {
				for _, way := range ways(imports, pkg, n.imported) {
					t.Errorf("%s must not import %s, by way of %s: %s", pkg, n.imported, way, n.why)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d files were read", seen)
	}
}

// rigs are packages below runtime that tests use only.
var rigs = []string{"runtime/mock", "runtime/runtimetest"}

// ways returns the packages that pkg imports, also through others, and that are at
// or below the path.
func ways(imports map[string][]string, pkg, path string) []string {
	var found []string
	seen := map[string]bool{pkg: true}
	for queue := []string{pkg}; len(queue) > 0; queue = queue[1:] {
		for _, next := range imports[queue[0]] {
			if seen[next] {
				continue
			}
			seen[next] = true
			queue = append(queue, next)
			if next == path || strings.HasPrefix(next, path+"/") {
				found = append(found, next)
			}
		}
	}
	return found
}

func checkImport(t *testing.T, pkg, imp string) {
	t.Helper()
	if rel, ours := strings.CutPrefix(imp, module+"/"); ours {
		matches := func(pattern string) bool { ok, _ := path.Match(pattern, rel); return ok || pattern == "..." }
		if !slices.ContainsFunc(allow[pkg], matches) {
			t.Errorf("%s must not import %s", pkg, rel)
		}
	}
	if imp == module+"/image" && pkg != "cmd/wolffia-oci" {
		t.Errorf("%s must not import %s: a client of registries would slow each start down", pkg, imp)
	}
	for mod, owner := range home {
		is := func(pattern string) bool { ok, _ := path.Match(pattern, pkg); return ok }
		if (imp == mod || strings.HasPrefix(imp, mod+"/")) && !slices.ContainsFunc(strings.Fields(owner), is) && pkg != "bench" {
			t.Errorf("%s must not import %s: only %s may", pkg, imp, owner)
		}
	}
}

func checkCalls(t *testing.T, file string, f *ast.File) {
	t.Helper()
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok {
			if why, bad := banned[x.Name+"."+sel.Sel.Name]; bad {
				t.Errorf("%s calls %s.%s: %s", file, x.Name, sel.Sel.Name, why)
			}
		}
		return true
	})
}
