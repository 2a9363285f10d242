package session_test

import (
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/wait"
	"wolffia/wire"
)

// An attack is a command that has broken shell sessions, or could. What it
// prints and its directory are looked at if they are given, all else always.
// After each the session must be alive and exact.
type attack struct {
	name     string
	text     string
	code     int
	stdout   *string // nil: not looked at
	ended    bool    // the shell ends
	lost     bool    // the status is unknown
	timeout  time.Duration
	timedOut bool
	input    string // what comes as standard input
	cwd      string
	next     string // a command afterwards, and what it must print
	prints   string
	bash     bool                        // means nothing elsewhere
	differ   map[string]func(at *attack) // what is otherwise in a shell
}

func out(s string) *string { return &s }

const soon = 400 * time.Millisecond

// inPosix is what is otherwise in dash and ash.
func inPosix(f func(*attack)) map[string]func(*attack) {
	return map[string]func(*attack){"dash": f, "ash": f}
}

func posixEnds(code int) map[string]func(*attack) {
	return inPosix(func(a *attack) { a.ended, a.code, a.stdout = true, code, out("") })
}

// replaced is the code of a shell that had to be.
const replaced = 137

// Without descriptors to save its own in, a POSIX shell does not come back.
var fewFiles = map[string]func(*attack){
	"dash": func(a *attack) { a.lost = true },
	"ash":  func(a *attack) { a.ended, a.code = true, 1 },
}

var attacks = []attack{
	{name: "unterminated heredoc", text: "cat <<E\nx", stdout: out("x\n"), differ: map[string]func(*attack){
		"dash": func(a *attack) { a.stdout = out("x") }, "ash": func(a *attack) { a.stdout = out("x") },
	}},
	{name: "open quote", text: `echo "open`, code: 2},
	{name: "open if", text: "if true; then", code: 2},
	{name: "open assignment", text: "x=$(; echo", code: 1, differ: inPosix(func(a *attack) { a.code = 2 })},
	{name: "comment last", text: "echo a # comment", stdout: out("a\n")},
	{name: "cat reads the end", text: "cat", stdout: out("")},
	{name: "read reads the end", text: "read x", code: 1},
	{name: "cat reads input", text: "cat", input: "hello\n", stdout: out("hello\n")},
	{name: "input nobody reads", text: "true", input: strings.Repeat("x", 200_000), stdout: out("")},
	{name: "input of which a part is read", text: "head -c 3", input: strings.Repeat("x", 200_000), stdout: out("xxx")},
	{name: "much input", text: "wc -c", input: strings.Repeat("x", 3_000_000), stdout: out("3000000\n")},
	{name: "cd and export", text: "(cd /; export A=1); cd /usr; export B=2", cwd: "/usr", next: "echo $A $B; pwd", prints: "2\n/usr\n"},
	{name: "exit", text: "exit 3", code: 3, ended: true, differ: inPosix(func(a *attack) {
		a.text += "; exit 3" // if they know of it already they warn once
	})},
	{name: "exit with a trap", text: "trap 'echo bye' EXIT; exit 4", code: 4, ended: true, stdout: out("bye\n"), differ: map[string]func(*attack){
		// They give the streams back first, as with ". file >out" by hand.
		"dash": func(a *attack) { a.stdout = out("") }, "ash": func(a *attack) { a.stdout = out("") },
	}},
	{name: "logout", text: "logout", bash: true, code: 1},
	{name: "exit with a stopped job", text: "sleep 9 & kill -STOP $!; exit 3; exit 3", code: 3, ended: true}, // a shell that has seen it stop only warns at first
	{name: "return", text: "return 3", code: 3},
	{name: "set -e and false", text: "set -e; false; echo no", code: 1, ended: true, stdout: out("")},
	{name: "set -e alone", text: "set -e", next: "set +e; echo ok", prints: "ok\n"},
	{name: "set -u", text: "set -u; echo $nope; echo no", code: 1, stdout: out(""), next: "set +u; echo ok", prints: "ok\n", differ: map[string]func(*attack){
		"dash": func(a *attack) { a.code = 2 }, "ash": func(a *attack) { a.code = 2 },
	}},
	{name: "set -eu", text: "set -eu; echo $nope; echo no", code: 1, ended: true, stdout: out(""), next: "set +eu; echo ok", prints: "ok\n", differ: inPosix(func(a *attack) { a.code, a.ended = 2, false })},
	{name: "pipefail", text: "set -o pipefail; false | true", bash: true, code: 1, next: "set +o pipefail; echo ok", prints: "ok\n"},
	{name: "unset parameter", text: "echo ${x:?}; echo no", code: 1, stdout: out(""), differ: inPosix(func(a *attack) { a.code = 2 })},
	{name: "set -n", text: "set -n", differ: inPosix(func(a *attack) { a.ended, a.code = true, replaced })},
	{name: "set -t", text: "set -t", bash: true, ended: true},
	{name: "set -r", text: "set -r", bash: true},
	{name: "set -x", text: "set -x; echo a", stdout: out("a\n"), next: "set +x; echo ok", prints: "ok\n"},
	{name: "set -v", text: "set -v; echo a", stdout: out("a\n"), next: "set +v; echo ok", prints: "ok\n"},
	{name: "xtrace to another descriptor", text: "exec 11>&2; BASH_XTRACEFD=11; set -x; echo a", bash: true, stdout: out("a\n"), next: "set +x; echo ok", prints: "ok\n"},
	{name: "posix and readonly", text: "set -o posix; readonly q=1; q=2; echo no", bash: true, code: 1, next: "set +o posix; echo ok", prints: "ok\n"},
	{name: "readonly IFS", text: "readonly IFS=x"},
	{name: "IFS of digits", text: "IFS=0123456789"},
	{name: "set -fCkah", text: "set -fCkah", bash: true},
	{name: "set -fC", text: "set -fC"},
	{
		name: "traps everywhere", text: "set -T -E; trap 'echo D' DEBUG; trap 'echo R' RETURN; trap 'echo E' ERR; trap 'echo X' EXIT; false", bash: true,
		code: 1, stdout: out("D\nD\nD\nD\nD\nE\nD\nR\n"), next: "trap - DEBUG RETURN ERR EXIT; set +TE; :", prints: "D\n",
	},
	{name: "extdebug and a false DEBUG trap", text: "shopt -s extdebug; trap false DEBUG", bash: true, ended: true, code: replaced},
	{name: "functions named like builtins", text: "eval() { :; }; printf() { :; }; read() { :; }; mapfile() { :; }; trap() { :; }; command() { :; }", bash: true},
	{name: "function unset", text: "unset() { :; }", bash: true},
	{name: "function builtin", text: "builtin() { :; }", bash: true, lost: true},
	{name: "functions builtin, unset, enable, printf", text: "builtin() { :; }; unset() { :; }; enable() { :; }; printf() { :; }", bash: true, lost: true},
	{name: "enable -n printf", text: "enable -n printf", bash: true, lost: true},
	{name: "enable -n builtin", text: "enable -n builtin", bash: true, lost: true},
	{name: "enable -n enable builtin", text: "enable -n enable builtin", bash: true, ended: true, code: replaced},
	{name: "function printf", text: "printf() { :; }", differ: inPosix(func(a *attack) { a.lost = true })},
	{name: "function dot", text: ".() { echo hijacked; }", bash: true, next: "echo mine", prints: "mine\n"},
	{name: "function dot that succeeds silently", text: ".() { :; }", bash: true, next: "echo mine", prints: "mine\n"},
	{name: "enable -n dot", text: "enable -n .", bash: true, next: "echo mine", prints: "mine\n"},
	{name: "aliases", text: "alias printf=foo builtin=bar eval=baz .=qux if=y", bash: true},
	{name: "aliases in a POSIX shell", text: "alias printf=foo .=qux"},
	{name: "unset PWD and others", text: "unset PWD OLDPWD HOME IFS PATH", next: "PATH=/usr/bin:/bin; echo ok", prints: "ok\n"},
	{name: "PATH empty", text: "PATH=", next: "PATH=/usr/bin:/bin; echo ok", prints: "ok\n"},
	{name: "PWD nonsense", text: "cd /usr; PWD=/nonsense", cwd: "/usr"},
	{name: "PWD nameref", text: "cd /usr; declare -n PWD=foo", bash: true, cwd: "/usr"},
	{name: "PWD readonly", text: "readonly PWD"},
	{name: "PWD long", text: `PWD=$(head -c 100000 /dev/zero | tr '\0' x)`},
	{name: "deleted directory", text: "mkdir -p /mnt/.gone; cd /mnt/.gone; rmdir /mnt/.gone", cwd: "/mnt/.gone"},
	{name: "directory with a newline", text: "d=$(printf '/tmp/a\\nb\\001c'); mkdir -p \"$d\"; cd \"$d\"; rmdir \"$d\"; mkdir \"$d\"; cd / ; cd \"$d\"; ", cwd: "/tmp/a\nb\x01c", next: "rmdir \"$d\"; cd /; echo ok", prints: "ok\n"},
	{name: "ulimit -n 10", text: "ulimit -n 10", differ: fewFiles},
	{name: "ulimit -n 4", text: "ulimit -n 4", differ: fewFiles},
	{name: "ulimit -f 0", text: "ulimit -f 0"},
	{name: "ulimit -v", text: "ulimit -v 100000"},
	{name: "umask 777", text: "umask 777"},
	{name: "exec to null", text: "exec >/dev/null 2>&1; echo x", stdout: out("")},
	{name: "exec closes all three", text: "exec 0<&- 1>&- 2>&-"},
	{name: "exec from the terminal", text: "exec </dev/tty"},
	{name: "exec closes 3 to 9", text: "exec 3>&- 4>&- 7<&- 9>&-"},
	{name: "exec keeps 5", text: "exec 5>/mnt/.five; echo a >&5", next: "echo b >&5; cat /mnt/.five; rm /mnt/.five; exec 5>&-", prints: "a\nb\n"},
	{name: "closes every descriptor", text: "for f in /proc/$$/fd/*; do eval \"exec ${f##*/}>&-\"; done", bash: true, ended: true},
	{name: "closes 10 to 13", text: "exec 10>&- 11>&- 12>&- 13>&-", bash: true, ended: true},
	{name: "forged report", text: `printf '\000%s %s %s\000' 123 0 / >&10; printf '\0001 0 /\000' >&11; echo x; exit_status=9; (exit 9)`, bash: true, code: 9, stdout: out("x\n")},
	{name: "steals packets", text: "read -t 0.1 -u 10 a; read -t 0.1 -u 11 b", bash: true, lost: true},
	{name: "exec sleep", text: "exec sleep 0.1", ended: true},
	{name: "exec sh", text: "exec sh -c 'exit 5'", code: 5, ended: true},
	{name: "exec of nothing", text: "exec nosuch; echo still", stdout: out("still\n"), differ: posixEnds(127)},
	{name: "kill -9 self", text: "kill -9 $$", code: 137, ended: true},
	{name: "kill -HUP self", text: "kill -HUP $$; sleep 1", code: 129, ended: true},
	{name: "kill -TERM self", text: "kill -TERM $$; echo on", stdout: out("on\n")},
	{name: "kill -INT self", text: "kill -INT $$; echo no", code: 130, stdout: out("")},
	{name: "kill 0", text: "kill 0; echo on", stdout: out("on\n")},
	{name: "kill -INT 0", text: "kill -INT 0; echo no", code: 130, stdout: out("")},
	{name: "suspend", text: "suspend; echo on", bash: true, stdout: out("on\n")},
	{name: "kill -STOP self", text: "kill -STOP $$; echo on", stdout: out("on\n")},
	{name: "kill -STOP 0", text: "kill -STOP 0; echo on", stdout: out("on\n")},
	{name: "a child stops itself", text: "sh -c 'kill -STOP $$'", code: 147},
	{name: "fg of a stopped job", text: "sleep 1 & kill -STOP $!; until jobs -s >/mnt/.w-s; test -s /mnt/.w-s; do :; done; rm /mnt/.w-s; fg", bash: true, stdout: out("sleep 1\n")},
	{name: "background", text: "sleep 100 & echo x", stdout: out("x\n")},
	{name: "setsid", text: "setsid sleep 100 & wait 2>/dev/null; echo x", stdout: out("x\n")},
	{name: "disown", text: "sleep 100 & disown; echo x", bash: true, stdout: out("x\n")},
	{name: "nohup", text: "nohup sleep 100 & echo x", stdout: out("x\n")},
	{name: "double fork", text: "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  time.sleep(100)\n os._exit(0)\nos.wait()'; echo x", stdout: out("x\n")},
	{
		name: "late output", text: "mkfifo /mnt/.w-l; (read x </mnt/.w-l; echo late; echo >/mnt/.w-l) & echo now", stdout: out("now\n"),
		next: "echo >/mnt/.w-l; read x </mnt/.w-l; rm /mnt/.w-l; wait 2>/dev/null; echo then", prints: "then\n",
	},
	{name: "process substitution", text: "echo x > >(cat); wait $!", bash: true, stdout: out("x\n")},
	{name: "coproc", text: "coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} l; echo $l", bash: true, stdout: out("hi\n")},
	{name: "wait", text: "sleep .05 & wait; echo $?", stdout: out("0\n")},
	{name: "bg and jobs", text: "sleep 5 & jobs >/dev/null; kill %1; wait 2>/dev/null; echo x", stdout: out("x\n")},
	{name: "set +m", text: "set +m; sleep 0.01; echo x", stdout: out("x\n")},
	{name: "loop", text: "while :; do :; done; echo no", timeout: soon, timedOut: true, code: 124, stdout: out("")},
	{name: "loop in a function", text: "f() { while :; do :; done; }; f; echo no", timeout: soon, timedOut: true, code: 124, stdout: out("")},
	{name: "loop in eval", text: "eval 'while :; do :; done'; echo no", timeout: soon, timedOut: true, code: 124, stdout: out("")},
	{name: "loop of sleeps", text: "for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done; echo no", timeout: soon, timedOut: true, code: 124, stdout: out("")},
	{name: "pipeline", text: "sleep 100 | sleep 100; echo no", timeout: soon, timedOut: true, code: 124},
	{name: "wait for ever", text: "sleep 100 & wait; echo no", timeout: soon, timedOut: true, code: 124},
	{name: "substitution", text: "x=$(sleep 100); echo no", timeout: soon, timedOut: true, code: 124},
	{name: "select", text: "select x in a b; do :; done </dev/tty", bash: true, code: 1},
	{name: "read from the terminal", text: "read x </dev/tty", code: 1, differ: map[string]func(*attack){
		"ash": func(a *attack) { a.code = 130 }, // it waits, and is interrupted
	}},
	{name: "interactive shell below", text: "bash -ic 'sleep 100'", bash: true, timeout: soon, timedOut: true, code: 124},
	{name: "FIFO that nobody opens", text: "mkfifo /mnt/.ff; cat </mnt/.ff", timeout: soon, timedOut: true, code: 124, next: "rm -f /mnt/.ff; echo ok", prints: "ok\n"},
	{name: "child that ignores INT and TERM", text: "sh -c 'trap \"\" INT TERM; while :; do sleep 1; done'; echo no", timeout: soon, timedOut: true, code: 124, stdout: out("")},
	{name: "child that ignores INT", text: "sh -c 'trap \"\" INT; sleep 100'; echo no", timeout: soon, timedOut: true, code: 124, stdout: out("")},
	{name: "child that ends well when interrupted", text: "sh -c 'trap \"exit 0\" INT; sleep 100 & wait'; echo no", timeout: soon, timedOut: true, code: 124, stdout: out("")},
	{name: "subshell that ignores INT and TERM", text: "(trap '' INT TERM; exec sleep 100)", timeout: soon, timedOut: true, code: 124},
	{name: "ignores INT and sleeps", text: "trap '' INT; sleep 100", timeout: soon, timedOut: true, code: 124},
	{name: "ignores INT and loops", text: "trap '' INT; echo up; while :; do :; done", timeout: soon, timedOut: true, code: 124, stdout: out("up\n")},
	{name: "INT trap and loops", text: "trap : INT; echo up; while :; do :; done", timeout: soon, timedOut: true, code: 124, stdout: out("up\n")},
	{name: "DEBUG trap that loops", text: "echo up; trap 'while :; do :; done' DEBUG; echo x", bash: true, timeout: soon, timedOut: true, code: 124, ended: true, stdout: out("up\n")},
	{name: "INT trap that exits", text: "trap 'exit 9' INT; echo up; while :; do :; done", timeout: soon, timedOut: true, code: 124, ended: true, stdout: out("up\n")},
	{name: "CHLD trap that sleeps", text: "trap 'sleep 100' CHLD; /bin/true", bash: true, timeout: soon, timedOut: true, code: 124, next: "trap - CHLD; echo ok", prints: "ok\n"},
	{name: "EXIT trap that loops", text: "trap 'while :; do :; done' EXIT; echo up; exit 2", timeout: soon, timedOut: true, code: 124, ended: true, stdout: out("up\n")},
	{name: "big brace", text: "while :; do echo {1..200000} >/dev/null; done; echo no", bash: true, timeout: soon, timedOut: true, code: 124, stdout: out("")},
	{name: "stty raw", text: "stty raw -echo </dev/tty"},
	{name: "stty -isig", text: "stty -isig </dev/tty; sleep 100", timeout: soon, timedOut: true, code: 124},
	{name: "stty tostop", text: "stty tostop </dev/tty"},
	{name: "PS1 that runs", text: "PS1='$(sleep .05)'"},
	{name: "PS1 that fails", text: "PS1='${x:?}'", differ: inPosix(func(a *attack) { a.code = 2 })}, // they print it between our lines,
	{name: "PROMPT_COMMAND sleeps", text: "PROMPT_COMMAND='sleep .1'", bash: true},
	{name: "PROMPT_COMMAND exits", text: "PROMPT_COMMAND='exit 9'", bash: true, code: 9, ended: true},
	{name: "PROMPT_COMMAND reads", text: "PROMPT_COMMAND='echo pc; read x'", bash: true, ended: true, code: replaced},
	{name: "TMOUT", text: "TMOUT=1", next: "sleep 1.2; echo ok", prints: "ok\n"},
	{name: "history", text: "history; echo '!!'", bash: true, stdout: out("!!\n")},
	{name: "history on", text: "set -o history -H; echo a", bash: true, stdout: out("a\n"), next: "set +o history +H; echo ok", prints: "ok\n"},
	{name: "binary", text: `printf 'a\000b\377'`, stdout: out("a\x00b\xff")},
	{name: "3 MB", text: "head -c 3000000 /dev/zero | tr '\\0' x", stdout: out(strings.Repeat("x", 3_000_000))},
	{name: "yes", text: "yes", timeout: soon, timedOut: true, code: 124},
	{name: "megabyte", text: "x=" + strings.Repeat("y", 1<<20) + "; echo ${#x}", stdout: out("1048576\n")},
	{name: "many lines", text: strings.Repeat("x=1\n", 50_000) + "echo $x", stdout: out("1\n")},
	{name: "not UTF-8", text: "echo '\xff\xfe'", stdout: out("\xff\xfe\n")},
	{name: "CRLF", text: "echo a\r\necho b\r\n", stdout: out("a\r\nb\r\n")},
	{name: "missing command", text: "nosuchcommand", code: 127},
	{name: "not executable", text: "/etc/passwd", code: 126},
	{name: "strange variables", text: "BASH_COMPAT=3.1; GLOBIGNORE='*'; FUNCNEST=1; shopt -s failglob", bash: true},
	{name: "LD_PRELOAD", text: "export LD_PRELOAD=/nonexistent", next: "unset LD_PRELOAD; echo ok", prints: "ok\n"},
	{name: "break", text: "break; continue"},
	{name: "endless recursion", text: "f() { f; }; ulimit -s 500; f", code: 139, ended: true, differ: map[string]func(*attack){
		"dash": func(a *attack) { a.text, a.code, a.ended = "f() { f; }; f", 2, false }, // it counts
	}},
	{name: "removes the sessions' directories", text: "rm -rf /dev/shm/* 2>/dev/null; :"},
	{name: "removes the sessions' directories by force", text: "chmod u+r /dev/shm; chmod u+r /dev/shm/*; rm -rf /dev/shm/*"},
	{name: "replaces the pipes by links", text: "chmod u+r /dev/shm; for d in /dev/shm/*; do chmod u+r $d; for f in $d/*; do rm -f $f; ln -s /dev/null $f; done; done", lost: true}, // its own text, too
	{name: "removes its text", text: "rm $BASH_SOURCE", bash: true},
	{name: "touches its text", text: "touch -d @0 $BASH_SOURCE; chmod 700 $BASH_SOURCE", bash: true},
}

func TestAttacks(t *testing.T) {
	for shell, path := range shells(t) {
		for _, a := range attacks {
			if a.bash && shell != "bash" {
				continue
			}
			if f := a.differ[shell]; f != nil {
				f(&a)
			}
			t.Run(shell+"/"+a.name, func(t *testing.T) { try(t, path, &a) })
		}
	}
}

func try(t *testing.T, path string, a *attack) {
	var s *sess
	var got result
	for timeout := a.timeout; ; timeout *= 4 {
		s = open(t, path)
		r := s.start(t, a.text, func(req *wire.StartRequest) {
			req.Stdin = a.input != ""
			req.TimeoutMS = uint64(timeout.Milliseconds())
		})
		if a.input != "" {
			go r.give(t, a.input)
		}
		got = r.wait(t)
		if timeout == 0 || a.stdout == nil || len(got.stdout) >= len(*a.stdout) || 4*timeout > wait.Limit/2 {
			break // else it had not come to where it waits
		}
	}
	switch {
	case got.err != nil:
		t.Errorf("got %v; want got.err == nil", got)
	case got.StatusLost != a.lost:
		t.Errorf("status lost %v, want %v: %v", got.StatusLost, a.lost, got)
	case got.Code != a.code && !a.lost:
		t.Errorf("code %d, want %d: %v", got.Code, a.code, got)
	case a.stdout != nil && got.stdout != *a.stdout:
		t.Errorf("stdout %q, want %q: %v", cut(got.stdout), cut(*a.stdout), got)
	case got.SessionEnded != a.ended:
		t.Errorf("ended %v, want %v: %v", got.SessionEnded, a.ended, got)
	case got.TimedOut != a.timedOut:
		t.Errorf("timed out %v: %v", got.TimedOut, got)
	case a.cwd != "" && string(got.Cwd) != a.cwd:
		t.Errorf("cwd %q, want %q", got.Cwd, a.cwd)
	}
	if a.next != "" {
		if n := s.run(t, a.next); n.err != nil || n.stdout != a.prints {
			t.Errorf("next: %v, want %q", n, a.prints)
		}
	}
	s.alive(t)
}
