package sessiontest

import (
	"slices"
	"strings"
)

// attacks returns all that is tried.
func attacks() []attack {
	return slices.Concat(
		syntaxAttacks, exitAttacks, optionAttacks, nameAttacks, variableAttacks, descriptorAttacks,
		signalAttacks, jobAttacks, timeoutAttacks, promptAttacks, textAttacks,
	)
}

// What a parser may trip over.
var syntaxAttacks = []attack{
	{name: "OpenHeredoc", script: "cat <<EOF\nx", stdout: "x\n", stderr: anything},
	{name: "OpenQuote", script: `echo "open`, stderr: anything, code: 2},
	{name: "OpenIf", script: "if true; then", stderr: anything, code: 2},
	{name: "OpenSubstitution", script: "x=$(; echo", stderr: anything, code: 1},
	{name: "CommentLast", script: "echo x # comment", stdout: "x\n"},
	{name: "BackslashLast", script: `echo x \`, stdout: "x \\\n"},
	{name: "CloseBrace", script: "}", stderr: anything, code: 2},
	{name: "CloseParenthesis", script: ") ; echo no", stderr: anything, code: 2},
	{name: "Done", script: "done; fi; esac", stderr: anything, code: 2},
	{name: "Imitation", script: `echo "]0;"; echo START; echo 'END0'; printf '\0aaaaaaaa 0 /\0'; (exit 4)`, stdout: "]0;\nSTART\nEND0\n\x00aaaaaaaa 0 /\x00", code: 4},
	{name: "Return", script: "return 3; echo no", code: 3},
	{name: "ReturnFromFunction", script: "f() { return 5; }; f", code: 5},
	{name: "Break", script: "break; continue; echo x", stdout: "x\n", stderr: anything},
	{name: "Recursion", script: "f() { f; }; (ulimit -s 500; f); echo x", stdout: "x\n", stderr: anything, needs: StackLimit},
	{name: "CdIntoDeleted", script: `d=$PWD/d; mkdir "$d"; cd "$d"; rmdir "$d"`, then: []step{{"echo x", "x\n", "", 0}}},
	{name: "CwdNewline", script: `mkdir $'a\nb\x01\xff'; cd $'a\nb\x01\xff'`, then: []step{{`basename "$PWD"`, "a\nb\x01\xff\n", "", 0}}},
	{name: "SubshellOnly", script: "(cd /; export A=1); cd /usr; export B=2", then: []step{{"pwd; echo ${A-unset}$B", "/usr\nunset2\n", "", 0}}},
}

// What ends a shell.
var exitAttacks = []attack{
	{name: "Exit", script: "exit 3", code: 3, fate: ends},
	{name: "ExitTrap", script: "trap 'echo bye' EXIT; exit 4", stdout: "bye\n", code: 4, fate: ends},
	{name: "ExitTrapThatExits", script: "trap 'exit 6' EXIT; exit 4", code: 6, fate: ends},
	{name: "ExitTrapThatLoops", script: "trap 'while :; do :; done' EXIT; echo a; exit 2", stdout: "a\n", fate: ends, slow: true},
	{name: "Logout", script: "logout", stderr: anything, code: 1},
	{name: "ExitWithStoppedJob", script: "sleep 1000 & kill -STOP $!; exit 3", stderr: anything, code: 3, fate: ends},
	{name: "ExitInSubshell", script: "(exit 3)", code: 3},
	{name: "ExecProgram", script: "exec sleep 0.2", fate: ends},
	{name: "ExecCode", script: "exec sh -c 'exit 5'", code: 5, fate: ends},
	{name: "ExecMissing", script: "exec /no/such/program; echo still", stdout: "still\n", stderr: anything, code: 0},
	{name: "ExecShell", script: "exec bash", fate: ends},
	{name: "KillNine", script: "kill -9 $$", code: 137, fate: ends},
	{name: "Hangup", script: "kill -HUP $$", code: 129, fate: ends},
	{name: "Segfault", script: "kill -SEGV $$; sleep 1", code: 139, fate: ends},
}

// Options that change how a shell reads and runs.
var optionAttacks = []attack{
	{name: "SetE", script: "set -e; false; echo no", code: 1, fate: ends},
	{name: "SetEAlone", script: "set -e", undo: "set +e"},
	{name: "SetEUPipefail", script: "set -eu -o pipefail", undo: "set +eu +o pipefail"},
	{name: "SetUUnset", script: "set -u; echo $unset; echo no", stderr: anything, code: 1},
	{name: "ColonQuestion", script: ": ${x:?}; echo no", stderr: anything, code: 1},
	{name: "SetN", script: "set -n"},
	{name: "SetT", script: "set -t", fate: ends},
	{name: "SetR", script: "set -r", undo: "set +r"},
	{name: "SetX", script: "set -x; : traced", stderr: "++ : traced\n", then: []step{{"set +x", "", "++ set +x\n", 0}}},
	{name: "SetV", script: "set -v", then: []step{{"set +v", "", "set +v\n", 0}}},
	{name: "XtraceFD", script: "BASH_XTRACEFD=11; set -x; :", undo: "set +x; unset BASH_XTRACEFD"},
	{name: "PosixReadonly", script: "set -o posix; readonly q=1; q=2", stderr: anything, code: 1},
	{name: "SetFCkah", script: "set -fCkah", then: []step{{"echo *", "*\n", "", 0}}},
	{name: "TracedTraps", script: "set -T -E; trap ': d' DEBUG; trap ': r' RETURN; trap 'echo e' ERR; trap : EXIT; false; true", stdout: "e\n", undo: "trap - DEBUG RETURN ERR EXIT; set +TE"},
	{name: "Extdebug", script: "shopt -s extdebug; trap 'false' DEBUG", code: replaced, fate: ends},
	{name: "NoMonitor", script: "set +m"},
	{name: "Vi", script: "set -o vi"},
	{name: "Emacs", script: "set -o emacs"},
	{name: "IgnoreEOF", script: "set -o ignoreeof"},
	{name: "Failglob", script: "shopt -s failglob; GLOBIGNORE='*'; FUNCNEST=1; BASH_COMPAT=3.1"},
	{name: "ExpandAliases", script: "shopt -u expand_aliases; shopt -s sourcepath autocd cdspell checkjobs", then: []step{{"echo x", "x\n", "", 0}}},
	{name: "History", script: "history; set -o history -H", then: []step{{"echo '!!'", "!!\n", "", 0}}},
	{name: "Umask777", script: "umask 777"},
	{name: "UlimitFiles", script: "ulimit -n 10"},
	{name: "UlimitFilesFew", script: "ulimit -n 4", undo: ":"},
	{name: "UlimitFileSize", script: "ulimit -f 0"},
	{name: "UlimitProcesses", script: "ulimit -u 1", undo: "exit"}, // it cannot even start a subshell
	{name: "UlimitMemory", script: "ulimit -v 100000"},
	{name: "UlimitStack", script: "ulimit -s 256"},
	{name: "UlimitCPU", script: "ulimit -t 1; while :; do :; done", code: 137, fate: ends, stderr: anything},
}

// Names that are the shell's own.
var nameAttacks = []attack{
	{name: "Functions", script: "for f in eval printf read mapfile trap unset command set exec return test true; do builtin eval \"$f() { builtin echo $f; }\"; done", undo: ":"},
	{name: "FunctionBuiltin", script: "builtin() { :; }; unset() { :; }; enable() { :; }", code: lost},
	{name: "FunctionDot", script: ".() { echo dot; }", undo: "unset -f ."},
	{name: "DisablePrintf", script: "enable -n printf", code: lost},
	{name: "DisableBuiltin", script: "enable -n builtin", code: lost},
	{name: "DisableBoth", script: "enable -n enable builtin", code: replaced, fate: ends},
	{name: "DisableDot", script: "enable -n ."},
	{name: "DisableAll", script: "enable -n $(enable -a | sed 's/enable //')", code: replaced, fate: ends},
	{name: "Aliases", script: "alias printf=foo builtin=bar eval=baz .=qux if=y trap=z"},
	{name: "AliasEverything", script: `alias '\builtin=false' PS1=x`, stderr: anything, code: 1},
	{name: "Hash", script: "hash -p /bin/false printf; hash -p /bin/false ."},
}

// Variables that a shell depends on.
var variableAttacks = []attack{
	{name: "UnsetAll", script: "unset PWD OLDPWD HOME IFS PATH"},
	{name: "EmptyPath", script: "PATH="},
	{name: "FalsePwd", script: "PWD=/nonsense"},
	{name: "NamerefPwd", script: "declare -n PWD=foo"},
	{name: "ReadonlyPwd", script: "readonly PWD"},
	{name: "ReadonlyIFS", script: "readonly IFS=x"},
	{name: "DigitsIFS", script: "IFS=0123456789"},
	{name: "ReadonlyTMOUT", script: "readonly TMOUT=1000", undo: ":"},
	{name: "ReadonlyPrompt", script: "readonly PROMPT_COMMAND=: PS1=x PS2=y", undo: ":"},
	{name: "LdPreload", script: "export LD_PRELOAD=/nonexistent"},
	{name: "BashEnv", script: "export BASH_ENV=/etc/passwd ENV=/etc/passwd"},
	{name: "ShellOpts", script: "export SHELLOPTS; bash -c true"},
	{name: "Locale", script: "LC_ALL=nonsense LANG=C.UTF-8", stderr: anything},
	{name: "DeclareInteger", script: "declare -i PWD PS1 IFS"},
	{name: "HugeVariable", script: "x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo ${#x}", stdout: "20000000\n"},
	{name: "HugeEnvironment", script: "export x=$(head -c 3000000 /dev/zero | tr '\\0' x); echo ${#x}", stdout: "3000000\n"},
}

// Descriptors; some are not the command's.
var descriptorAttacks = []attack{
	{name: "ExecDevNull", script: "exec >/dev/null 2>&1; echo lost", then: []step{{"echo x", "x\n", "", 0}}},
	{name: "ExecClosed", script: "exec 0<&- 1>&- 2>&-", then: []step{{"cat; echo x", "x\n", "", 0}}},
	{name: "ExecTerminal", script: "exec </dev/tty"},
	{name: "ExecOutTerminal", script: "exec >/dev/tty 2>&1; echo on the terminal"},
	{name: "CloseLow", script: "exec 3>&- 4>&- 5>&- 6>&- 7<&- 8>&- 9>&-"},
	{name: "KeepFive", script: "exec 5>f; echo a >&5", then: []step{{"echo b >&5; cat f", "a\nb\n", "", 0}}},
	{name: "CloseAll", script: `for f in /proc/$$/fd/*; do n=${f##*/}; eval "exec $n>&-"; done`, fate: ends},
	{name: "CloseHigh", script: "for n in {10..255}; do eval \"exec $n>&-\"; done", stderr: anything, fate: ends},
	{name: "Forge", script: `for n in {3..30}; do { printf '\0%s 0 /nonsense\0' 0123456789abcdef >&$n; } 2>/dev/null; done; (exit 5)`, stderr: anything, code: 5, then: []step{{"basename $PWD | cut -c1-3", "tmp\n", "", 0}}},
	{name: "ForgeInput", script: `for n in {3..30}; do { printf 'echo injected\n' >&$n; } 2>/dev/null; done; (exit 5)`, stderr: anything, code: 5},
	{name: "Steal", script: "for n in {10..20}; do { read -t 0.05 -u $n x; } 2>/dev/null; done", undo: ":", code: lost},
	// On a slow host the job has been stopped by the time it is disowned, and bash warns of that.
	{name: "StealInBackground", script: "(cat <&11; cat <&10) >/dev/null 2>&1 & disown", stderr: anything, undo: ":"},
	{name: "DirectoryGone", script: `rm -f "${BASH_SOURCE%/*}"/*`},
	{name: "DirectoryGoneByForce", script: `chmod 700 "${BASH_SOURCE%/*}"; rm -rf "${BASH_SOURCE%/*}"`},
	{name: "DirectoryIsFile", script: `d=${BASH_SOURCE%/*}; chmod 700 "$d"; rm -rf "$d"; : >"$d"`, undo: ":"},
	{name: "DirectoriesForFiles", script: `d=${BASH_SOURCE%/*}; chmod 700 "$d"; for f in "$d"/*; do rm "$f"; mkdir "$f"; done`, undo: ":", code: lost},
	{name: "DirectoryUnusable", script: `chmod 000 "${BASH_SOURCE%/*}"`, undo: ":"},
	{name: "TextDeleted", script: `rm "$BASH_SOURCE"; (exit 4)`, code: 4},
	{name: "RunOnce", script: `echo run >>count; touch -d @0 "$BASH_SOURCE"`, then: []step{{"cat count", "run\n", "", 0}}},
	{
		name: "StolenNonce", script: `n=$(timeout 0.2 cat <&10 | tr '\0' ' '); n=${n#*000\' }; builtin printf '\000%s 0 /\000' ${n%% *} >&10; sleep 0.2; echo tests FAILED; (exit 1)`,
		stdout: "tests FAILED\n", code: lost, undo: ":",
	},
}

// Signals to the shell itself.
var signalAttacks = []attack{
	{name: "KillTerm", script: "kill -TERM $$; echo x", stdout: "x\n"},
	{name: "KillInt", script: "kill -INT $$; echo x", code: 130},
	{name: "KillZero", script: "kill 0"},
	{name: "KillIntZero", script: "kill -INT 0; sleep 5", code: 130},
	{name: "Suspend", script: "suspend"},
	{name: "StopSelf", script: "kill -STOP $$; echo x", stdout: "x\n"},
	{name: "StopGroup", script: "kill -STOP 0; echo x", stdout: "x\n"},
	{name: "StopChild", script: "sh -c 'kill -STOP $$'; echo $?", stdout: "147\n", stderr: anything},
	{name: "StopAndForeground", script: "sleep 1 & kill -STOP $!; until jobs -s >f; [ -s f ]; do :; done; fg", stdout: "sleep 1\n", stderr: anything},
	{name: "IgnoreAll", script: "trap '' HUP INT QUIT TERM TSTP TTIN TTOU CHLD PIPE WINCH", undo: "trap - HUP INT QUIT TERM TSTP TTIN TTOU CHLD PIPE WINCH"},
	{name: "TrapsPrint", script: "for s in HUP INT TERM USR1 WINCH; do trap \"echo $s\" $s; done; kill -USR1 $$; :", stdout: "USR1\n"},
}

// Background jobs.
var jobAttacks = []attack{
	{name: "Background", script: "sleep 1000 & echo x", stdout: "x\n"},
	{name: "Setsid", script: "setsid sleep 1000 & wait 2>/dev/null; echo x", stdout: "x\n"},
	{name: "Disown", script: "sleep 1000 & disown; echo x", stdout: "x\n"},
	{name: "DaemonAtOnce", script: "setsid sleep 1000 >/dev/null 2>&1 </dev/null & wait 2>/dev/null; echo x", stdout: "x\n"},
	{name: "Nohup", script: "nohup sleep 1000 >/dev/null 2>&1 & echo x", stdout: "x\n"},
	{name: "LateOutput", script: "mkfifo f; (read x <f; echo late; echo >f) &", then: []step{{"echo >f; read x <f; wait 2>/dev/null; echo x", "x\n", "", 0}}},
	{name: "Coproc", script: "coproc cat; echo in >&${COPROC[1]}; read x <&${COPROC[0]}; echo $x", stdout: "in\n"},
	{name: "ProcessSubstitution", script: "echo x > >(cat); wait $!", stdout: "x\n"},
	{name: "Wait", script: "true & wait; echo $?; jobs; bg; fg; (exit 2)", stdout: "0\n", stderr: anything, code: 2},
	{name: "Fork", script: "for i in {1..200}; do sleep 1000 & done; echo x", stdout: "x\n"},
}

// What does not end by itself. What it does later is not done.
var timeoutAttacks = []attack{
	{name: "Loop", script: "echo a; while :; do :; done; echo b", stdout: "a\n", slow: true},
	{name: "LoopInFunction", script: "f() { while :; do :; done; }; echo a; f; echo b", stdout: "a\n", slow: true},
	{name: "LoopInEval", script: `echo a; eval 'while :; do :; done'; echo b`, stdout: "a\n", slow: true},
	{name: "LoopInSource", script: `echo a; . <(echo 'while :; do :; done'); echo b`, stdout: "a\n", slow: true},
	{name: "LoopOfSleeps", script: "echo a; for i in {1..1000}; do sleep 0.1; done; echo b", stdout: "a\n", slow: true},
	{name: "Pipeline", script: "echo a; yes | cat | grep no; echo b", stdout: "a\n", slow: true},
	{name: "WaitForJob", script: "echo a; sleep 1000 & wait; echo b", stdout: "a\n", slow: true},
	{name: "Substitution", script: "echo a; x=$(sleep 1000); echo b", stdout: "a\n", slow: true},
	{name: "BashI", script: "echo a; bash -ic 'sleep 1000'; echo b", stdout: "a\n", slow: true},
	{name: "OpenFIFO", script: "echo a; mkfifo f; cat <f; echo b", stdout: "a\n", slow: true},
	{name: "ShellOpensFIFO", script: "echo a; mkfifo f; read x <f; echo b", stdout: "a\n", slow: true},
	{name: "ChildIgnoresInt", script: "echo a; sh -c 'trap \"\" INT TERM; while :; do sleep 0.05; done'; echo b", stdout: "a\n", stderr: anything, slow: true},
	{name: "SubshellIgnoresInt", script: "echo a; (trap '' INT TERM; exec sleep 1000)", stdout: "a\n", stderr: anything, slow: true},
	{name: "ShellIgnoresInt", script: "echo a; trap '' INT; sleep 1000", stdout: "a\n", stderr: anything, slow: true},
	{name: "LoopIgnoresInt", script: "echo a; trap '' INT; while :; do :; done; echo b", stdout: "a\n", slow: true, undo: "trap - INT"},
	{name: "LoopTrapsInt", script: "trap : INT; echo a; while :; do :; done; echo b", stdout: "a\n", slow: true, undo: "trap - INT"},
	{
		name: "TrapIntTouch", script: "trap 'echo cleanup >>cleaned' INT; echo a; sleep 1000; touch deployed; echo b", stdout: "a\n\n", stderr: anything, slow: true,
		then: []step{{"ls; trap -p INT", "cleaned\ntrap -- 'echo cleanup >>cleaned' SIGINT\n", "", 0}}, undo: ":",
	},
	{
		name: "IgnoresInt", script: "trap '' INT; echo a; sleep 1000; touch deployed; echo b", stdout: "a\n", stderr: anything, slow: true,
		then: []step{{"ls; trap -p INT", "trap -- '' SIGINT\n", "", 0}}, undo: ":",
	},
	{
		name: "IgnoresAll", script: "for s in {1..64}; do trap '' $s; done 2>/dev/null; echo a; sleep 1000; touch deployed; echo b", stdout: "a\n", stderr: anything, slow: true, fate: either,
		undo: `[ ! -e deployed ] || echo deployed >&2; for s in {1..64}; do trap - $s; done 2>/dev/null`, needs: ShellSignals,
	},
	{
		name: "ErrTrapSleeps", script: "trap 'sleep 1000' ERR; echo a; false; touch deployed; echo b", stdout: "a\n", stderr: anything, slow: true, fate: either,
		then: []step{{"trap - ERR; ls", "", "", 0}},
	},
	{
		name: "ReturnTrapLoops", script: "trap 'while :; do :; done' RETURN; echo a; . /dev/null; touch deployed; echo b", stdout: "a\n", stderr: anything, slow: true, fate: either,
		then: []step{{"trap - RETURN; ls", "", "", 0}},
	},
	{name: "DebugTrapLoops", script: "echo a; trap 'while :; do :; done' DEBUG; echo b", stdout: "a\n", slow: true, fate: either}, // each interrupt ends one round of the trap
	{name: "ChldTrapSleeps", script: "trap '((i++ < 2)) && sleep 1000' CHLD; /bin/true", slow: true, undo: "trap - CHLD"},         // limited: it may come after the command
	{name: "TrapSleepsAgain", script: "trap '((i++ < 6)) && sleep 1000' INT; { sleep 1000; } >/dev/null 2>&1", slow: true, undo: "trap - INT"},
	{name: "SubstitutionIgnoresInt", script: "x=$(trap '' INT; sleep 1000; sleep 1000)", slow: true},
	{name: "LoopOfPrograms", script: "while :; do /bin/true; done", slow: true},
	{name: "Stopped", script: "echo a; sleep 1000 | sh -c 'kill -STOP $$'; sleep 1000; echo b", stdout: "a\n", stderr: anything, slow: true},
	{name: "ManyChildren", script: "echo a; for i in {1..50}; do (trap '' INT TERM; sleep 1000) & done; wait", stdout: "a\n", slow: true},
	{name: "Yes", script: "yes >/dev/null", slow: true},
}

// What a shell does at its prompt, and the terminal behind it.
var promptAttacks = []attack{
	{name: "SttyRaw", script: "stty raw -echo </dev/tty"},
	{name: "SttyNoSignals", script: "stty -isig </dev/tty"},
	{name: "SttyTostop", script: "stty tostop </dev/tty"},
	{name: "Prompt", script: `PS1='$(sleep .1)'`},
	{name: "PromptFails", script: `PS1='${x:?}'`},
	{name: "PromptCommand", script: "PROMPT_COMMAND='sleep .2'"},
	{name: "PromptCommandExits", script: "PROMPT_COMMAND='exit 9'", code: 9, fate: ends},
	{name: "PromptCommandReads", script: "PROMPT_COMMAND='echo pc; read x'", code: replaced, fate: ends},
	{name: "PromptMovesInput", script: "echo x; PROMPT_COMMAND='exec 0</dev/tty'", stdout: "x\n", fate: ends, needs: TerminalEnd},
	{name: "PromptMovesInputAside", script: "echo x; PROMPT_COMMAND='exec 5<&0 0</dev/tty'", stdout: "x\n", fate: ends, needs: TerminalEnd},
	{name: "PS0", script: "PS0='$(echo ps0)'; PS2=x; PS4='$(echo ps4)'"},
	{name: "Logsout", script: "TMOUT=1", then: []step{{"sleep 1.2; echo x", "x\n", "", 0}}},
	{name: "ReadsTerminalInBackground", script: "cat </dev/tty >/dev/null 2>&1 & until jobs -s >f; [ -s f ]; do :; done", needs: TerminalStops},
	{name: "FloodsTerminal", script: "seq 1 200000 >/dev/tty; echo x", stdout: "x\n"},
	{name: "InjectsInput", script: `python3 -c 'import fcntl,termios
fd = open("/dev/tty", "rb")
for c in b"echo injected\n":
    fcntl.ioctl(fd, termios.TIOCSTI, bytes([c]))' 2>/dev/null; true`},
}

// Texts and outputs of odd sizes and bytes.
var textAttacks = []attack{
	{name: "Binary", script: `printf 'a\0b\xff'`, stdout: "a\x00b\xff"},
	{name: "NoNewline", script: "printf x; printf y >&2", stdout: "x", stderr: "y"},
	{name: "ThreeMegabytes", script: "head -c 3000000 /dev/zero | tr '\\0' x", stdout: strings.Repeat("x", 3_000_000)},
	{name: "BothStreams", script: "seq 1 300000 >&2 | seq 1 300000 | wc -c; (exit 3)", stdout: "1988895\n", stderr: anything, code: 3},
	{name: "LongLine", script: "echo " + strings.Repeat("x", 1_000_000), stdout: strings.Repeat("x", 1_000_000) + "\n"},
	{name: "ManyLines", script: strings.Repeat("echo x\n", 10_000), stdout: strings.Repeat("x\n", 10_000)},
	{name: "NotUTF8", script: "echo '\xff\xfe\x80'", stdout: "\xff\xfe\x80\n"},
	{name: "CarriageReturns", script: "echo a\r\necho b\r\n", stdout: "a\r\nb\r\n"},
	{name: "Controls", script: "echo '\x03\x04\x1a\x1c'", stdout: "\x03\x04\x1a\x1c\n"},
	{name: "Empty", script: ""},
	{name: "Blank", script: "\n \t\n"},
	{name: "Missing", script: "no-such-command", stderr: anything, code: 127},
	{name: "NotExecutable", script: "/etc/passwd", stderr: anything, code: 126},
	{name: "ClosedPipe", script: "yes | head -n 1; echo ${PIPESTATUS[0]}", stdout: "y\n141\n"},
}
