package container

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"wolffia/internal/sys/proc"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A kind says what runs a main process.
type kind string

const (
	byJob      kind = "job"      // a job of a session, which outlives its starter
	byTerminal kind = "terminal" // the terminal of a session, likewise
	byHolder   kind = "holder"   // a process of the host, which has its streams
)

// A record is what the labels of a container's sandbox say.
type record struct {
	Config
	ImageID string
	Argv    []string
	Kind    kind      `json:",omitempty"` // empty: it does not run, or another call is about to start it
	Session string    `json:",omitempty"` // byTerminal
	Holder  holder    `json:",omitzero"`  // the process that has started it
	Started time.Time `json:",omitzero"`  // zero: never
	Exit    *Exit     `json:",omitempty"` // nil: it runs, or its end was not seen yet
}

// An Exit is how a main process has ended.
type Exit struct {
	Code int
	At   time.Time
}

// A holder is the process that starts a main process. One byHolder ends with it.
type holder struct {
	PID   int
	Start uint64
}

func self() holder {
	p, _ := proc.Read(os.Getpid())
	return holder{p.PID, p.Start}
}

// alive reports whether the holder runs.
func (h holder) alive() bool {
	p, err := proc.Read(h.PID)
	return err == nil && p.Start == h.Start && !p.Dead()
}

const (
	chunk     = 4000 // bytes of a label's value: see [runtime.CheckLabels]
	maxChunks = 32
)

// put writes the record into labels.
func (r *record) put(labels map[string]string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	maps.DeleteFunc(labels, func(k, _ string) bool { return strings.HasPrefix(k, launch.LabelContainer) })
	for n, rest := 0, string(text); rest != ""; n++ {
		if n == maxChunks {
			return runtime.Errorf(runtime.ErrInvalid,
				"the container's configuration has %d bytes, the limit is %d", len(text), maxChunks*chunk)
		}
		end := min(len(rest), chunk)
		for end < len(rest) && !utf8.RuneStart(rest[end]) {
			end--
		}
		labels[labelOf(n)], rest = rest[:end], rest[end:]
	}
	return nil
}

func labelOf(n int) string {
	if n == 0 {
		return launch.LabelContainer
	}
	return launch.LabelContainer + "." + strconv.Itoa(n)
}

// recordOf reads the record of labels; nil: it is no container's.
func recordOf(labels map[string]string) *record {
	var text strings.Builder
	for n := range maxChunks {
		part, is := labels[labelOf(n)]
		if !is {
			break
		}
		text.WriteString(part)
	}
	r := new(record)
	if text.Len() == 0 || json.Unmarshal([]byte(text.String()), r) != nil {
		return nil
	}
	return r
}

// idLength is how many digits the id of a sandbox has that is a container: docker's short form.
const idLength = 12

// FullID returns the id of a container as docker has it: 64 hexadecimal digits, of which the first
// twelve are the sandbox's id.
func FullID(sandboxID string) string {
	sum := sha256.Sum256([]byte("container " + sandboxID))
	return sandboxID + hex.EncodeToString(sum[:])[:64-len(sandboxID)]
}
