package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
)

// Limits are limits on what a group uses of the machine. 0 means no limit.
type Limits struct {
	Memory int64   // bytes, including swap
	CPUs   float64 // number of processors
	PIDs   int64   // processes and threads
	Freeze bool    // Group.Freeze must work
}

// Wants returns the controllers that l needs.
func (l *Limits) Wants() []string {
	var all []string
	for _, c := range []struct {
		name    string
		limited bool
	}{{CPU, l.CPUs > 0}, {Memory, l.Memory > 0}, {PIDs, l.PIDs > 0}, {Freezer, l.Freeze}} {
		if c.limited {
			all = append(all, c.name)
		}
	}
	return all
}

// A Group is the control group of a sandbox.
type Group struct {
	// Dirs are its directories: in version 1 one per controller, in version 2 one, for "".
	Dirs map[string]string `json:"dirs"`

	enable []string // version 2: the controllers to enable in its parent
}

// Of returns the group of a process, after Fill, if the name of the group or of its scope begins
// with prefix; else nil.
func Of(pid int, prefix string) *Group {
	g := &Group{Dirs: map[string]string{}}
	text := read("/proc/" + strconv.Itoa(pid) + "/cgroup")
	for _, c := range []string{"", CPU, Memory, PIDs, Freezer} {
		path := pathOf(text, c)
		if base := filepath.Base(path); base == innerGroup || base == serverGroup {
			path = filepath.Dir(path)
		}
		name := filepath.Base(path)
		if name == inScope {
			name = filepath.Base(filepath.Dir(path))
		}
		if strings.HasPrefix(name, prefix) {
			g.Dirs[c] = filepath.Join(mount, c, path)
		}
	}
	if len(g.Dirs) == 0 {
		return nil
	}
	return g
}

// Named reports whether the name of the group or of its scope is that of [Plan.Open].
func (g *Group) Named(name string) bool {
	for _, dir := range g.Dirs {
		if filepath.Base(dir) == inScope {
			dir = filepath.Dir(dir)
		}
		if base := filepath.Base(dir); base != name && !strings.HasPrefix(base, name+"-") {
			return false
		}
	}
	return true
}

// inScope is the name of a group in a systemd scope.
const inScope = "sandbox"

// A group of version 2 has no processes itself, but two groups for them: one for the processes of
// the sandbox, which PIDs limits, and one for the process that serves it.
const (
	innerGroup  = "inside"
	serverGroup = "beside"
)

// Open returns the group's place, for the caller to record before Fill makes it. If systemd makes
// the group, Open moves the processes pid and servers to a scope, which systemd removes with its
// last process. pid must be held before its exec. servers are as in Fill.
func (p *Plan) Open(ctx context.Context, name string, pid int, servers ...int) (*Group, error) {
	g := &Group{Dirs: map[string]string{}, enable: p.enable}
	if p.socket == "" {
		for c, dir := range p.parents {
			g.Dirs[c] = filepath.Join(dir, name)
		}
		return g, nil
	}
	// systemd takes a moment to remove a scope, so each has a name of its own.
	path, err := startScope(ctx, p.socket, fmt.Sprintf("%s-%d.scope", name, pid), pid, servers...)
	if err != nil {
		return nil, fmt.Errorf("ask systemd for a control group: %w", err)
	}
	g.Dirs[""], g.enable = filepath.Join(mount, path, inScope), p.wants
	return g, nil
}

// Fill makes the group, moves the process pid there, and sets the limits, which bind pid and all
// that it starts. servers are processes that use memory and processors on behalf of pid: the limits
// of these bind all together. After an error the processes may be in the group:
// the caller ends them, and calls Remove.
func (g *Group) Fill(l *Limits, pid int, servers ...int) error {
	all := g.all()
	for _, dir := range all {
		// Readable for the user that root drops to, whatever the umask.
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			err = os.Chmod(dir, 0o755)
		}
		if err != nil {
			return fmt.Errorf("make control group %s: %w", dir, err)
		}
	}
	// The kernel refuses to enable controllers while a process is in the parent, which may be
	// the one to move.
	if err := g.move(pid, servers); err != nil {
		return err
	}
	if dir := g.Dirs[""]; dir != "" {
		err := enable(filepath.Dir(dir), g.enable)
		if err == nil {
			// The two groups share memory as needed, and processors evenly, so that the
			// sandbox cannot starve its servers.
			err = enable(dir, without(l.Wants(), []string{Memory, Freezer}))
		}
		if err != nil {
			return err
		}
	}
	return g.limit(l)
}

// all returns the directories of g, parents first.
func (g *Group) all() []string {
	var all []string
	for _, c := range slices.Sorted(maps.Keys(g.Dirs)) {
		if all = append(all, g.Dirs[c]); c == "" {
			all = append(all, filepath.Join(g.Dirs[c], innerGroup), filepath.Join(g.Dirs[c], serverGroup))
		}
	}
	return all
}

// enable enables controllers for the groups in dir.
func enable(dir string, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	return write(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(controllers, " +"))
}

// move moves the processes to their groups.
func (g *Group) move(pid int, servers []int) error {
	enter := func(dir string, pid int) error {
		return write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
	}
	for c, dir := range g.Dirs {
		serverDir := dir
		if c == "" {
			dir, serverDir = filepath.Join(dir, innerGroup), filepath.Join(dir, serverGroup)
		}
		err := enter(dir, pid)
		for _, server := range servers {
			if err == nil && c != PIDs && c != Freezer {
				err = enter(serverDir, server)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// period is the period of a limit on processors, in microseconds; the kernel's default.
const period = 100_000

func (g *Group) limit(l *Limits) error {
	cpus, bytes, pids := strconv.FormatInt(int64(l.CPUs*period), 10), strconv.FormatInt(l.Memory, 10), strconv.FormatInt(l.PIDs, 10)
	v1 := g.Dirs[""] == ""
	var err error
	set := func(on bool, controller, file, value string) {
		if on && err == nil {
			err = write(filepath.Join(g.dir(controller), file), value)
		}
	}
	set(l.Memory > 0 && v1, Memory, "memory.limit_in_bytes", bytes)
	set(l.Memory > 0 && !v1, Memory, "memory.max", bytes)
	set(l.CPUs > 0 && v1, CPU, "cpu.cfs_period_us", strconv.Itoa(period))
	set(l.CPUs > 0 && v1, CPU, "cpu.cfs_quota_us", cpus)
	set(l.CPUs > 0 && !v1, CPU, "cpu.max", cpus+" "+strconv.Itoa(period))
	set(l.PIDs > 0, PIDs, "pids.max", pids)
	if err == nil && l.Memory > 0 {
		err = noSwap(g.dir(Memory), l.Memory, v1)
	}
	return err
}

// noSwap makes the limit on memory a limit on memory and swap together.
func noSwap(dir string, memory int64, v1 bool) error {
	file, value := "memory.swap.max", "0"
	if v1 {
		file, value = "memory.memsw.limit_in_bytes", strconv.FormatInt(memory, 10)
	}
	err := write(filepath.Join(dir, file), value)
	if errors.Is(err, fs.ErrNotExist) {
		if strings.Count(read("/proc/swaps"), "\n") <= 1 { // only the heading
			return nil
		}
		err = errors.New("the kernel does not count swap per control group: boot with swapaccount=1, or disable swap")
	}
	return err
}

// dir returns the directory with a controller's files.
func (g *Group) dir(controller string) string {
	if dir := g.Dirs[""]; dir != "" {
		if controller == PIDs {
			return filepath.Join(dir, innerGroup)
		}
		return dir
	}
	return g.Dirs[controller]
}

// OOMKills returns how many processes of the group the kernel has killed because of the limit on
// memory. It is 0 without that limit, and after Remove.
func (g *Group) OOMKills() int64 {
	file := "memory.events"
	if g.Dirs[""] == "" {
		file = "memory.oom_control"
	}
	dir := g.dir(Memory)
	if dir == "" {
		return 0
	}
	for line := range strings.Lines(read(filepath.Join(dir, file))) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			kills, _ := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			return kills
		}
	}
	return 0
}

// Usage returns how many bytes of memory the group uses, and how long its processes have computed;
// 0 for what no controller counts, and after Remove.
func (g *Group) Usage() (memory int64, cpu time.Duration) {
	number := func(controller, v1, v2, field string) int64 {
		dir, file := g.dir(controller), v2
		if g.Dirs[""] == "" {
			file, field = v1, ""
		}
		if dir == "" {
			return 0
		}
		text := read(filepath.Join(dir, file))
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, field); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				return n
			}
		}
		return 0
	}
	memory = number(Memory, "memory.usage_in_bytes", "memory.current", "")
	cpu = time.Duration(number(CPU, "cpuacct.usage", "cpu.stat", "usage_usec "))
	if g.Dirs[""] != "" {
		cpu *= time.Microsecond
	}
	return memory, cpu
}

// Remove kills the processes of the group, waits for their end up to limit, and removes the group.
// A missing group is not an error. systemd removes a scope by itself when it is empty.
func (g *Group) Remove(limit time.Duration) error {
	end := time.Now().Add(limit)
	var errs []error
	_ = g.Thaw() // in version 1 no signal ends a frozen process
	threads := "tasks"
	if g.Dirs[""] != "" {
		threads = "cgroup.threads"
	}
	for _, dir := range slices.Backward(g.all()) {
		err := clearOut(filepath.Join(dir, threads), end)
		if err == nil {
			err = os.Remove(dir) // only rmdir(2) removes a group
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("remove control group %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// clearOut kills the processes of a group and waits for their end. file lists its threads: the
// last thread of a process that ends is in the group longer than the process is listed.
func clearOut(file string, end time.Time) error {
	for {
		threads, err := os.ReadFile(file)
		switch {
		case err != nil || len(threads) == 0:
			return err
		case time.Now().After(end):
			return fmt.Errorf("%s still has threads", file)
		}
		for _, thread := range strings.Fields(string(threads)) {
			if thread == "0" {
				return fmt.Errorf("%s has processes of another pid namespace: end them first", file)
			}
			if err := kill(thread, file, end); err != nil {
				return err
			}
		}
	}
}

// kill kills the process of a thread in the group, and waits for its end.
func kill(thread, file string, end time.Time) error {
	pid := processOf(thread)
	if pid == 0 {
		return nil
	}
	return proc.Kill(pid, end, func() (bool, error) {
		threads, err := os.ReadFile(file)
		return err == nil && slices.Contains(strings.Fields(string(threads)), thread) && processOf(thread) == pid, err
	})
}

// processOf returns the process of a thread, 0 if the thread has ended.
func processOf(thread string) int {
	id, err := strconv.Atoi(thread)
	if err != nil {
		return 0
	}
	words, err := proc.Status(id, "Tgid")
	if err != nil || len(words) != 1 {
		return 0
	}
	pid, _ := strconv.Atoi(words[0])
	return pid
}

// write writes value to a file of the kernel.
func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%w (writing %q)", err, value)
	}
	return nil
}
