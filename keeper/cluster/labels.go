package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"maps"
	"os"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// The labels of an object, by which it is found. Values are hashes but for the id: a label has 63
// characters of a small alphabet at most. And the annotations, which have the same in full.
const (
	labelID    = "wolffia.dev/id"
	labelPlace = "wolffia.dev/place" // of place.hash
	labelOwner = "wolffia.dev/owner" // of the owner's labels, for kubectl get -l

	noteLabels  = "wolffia.dev/labels" // JSON
	noteName    = "wolffia.dev/name"
	noteCreated = "wolffia.dev/created-at" // ms since 1970
	noteState   = "wolffia.dev/state-dir"
	noteMachine = "wolffia.dev/machine"
	noteUser    = "wolffia.dev/uid"
	noteSpec    = "wolffia.dev/spec" // the hash of the object without it
)

// ownerLabels record a sandbox's owner (package service).
var ownerLabels = []string{launch.LabelOrganizationID, launch.LabelProjectID, launch.LabelUserID, launch.LabelGitConfigured}

// maxNotes bounds the annotations that Scan reads of an object, in bytes.
const maxNotes = 64 << 10

// A place is a state directory of a machine. Several machines may share a cluster.
type place struct {
	machine  string // /etc/machine-id, else the name of the host; of a pod its namespace and name
	stateDir string
	uid      int // the owner
}

func here(stateDir string) place { return place{machine(), stateDir, os.Geteuid()} }

func machine() string {
	host, _ := os.Hostname()
	if namespace := podNamespace(); namespace != "" {
		return namespace + "/" + host // an image's machine-id is that of all its pods
	}
	id, _ := os.ReadFile("/etc/machine-id")
	return cmp.Or(strings.TrimSpace(string(id)), host)
}

// hash returns a text as the value of a label.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:20]))
}

func (of place) hash() string { return hash(of.machine, of.stateDir, strconv.Itoa(of.uid)) }

func objectName(id string) string { return "wolffia-" + id }

// labels returns the labels of a sandbox's objects; own are those of its configuration.
func labels(id string, own map[string]string, of place) map[string]string {
	all := map[string]string{labelID: id, labelPlace: of.hash()}
	if owner := owned(own); len(owner) > 0 {
		all[labelOwner] = hash(owner[launch.LabelOrganizationID], owner[launch.LabelProjectID], owner[launch.LabelUserID])
	}
	return all
}

// owned returns those of labels that record an owner.
func owned(labels map[string]string) map[string]string {
	all := map[string]string{}
	for _, k := range ownerLabels {
		if v := labels[k]; v != "" {
			all[k] = v
		}
	}
	return all
}

func annotations(config *runtime.SandboxConfig, createdAt int64, of place) map[string]string {
	owner, _ := json.Marshal(owned(config.Labels)) // texts never fail
	return map[string]string{
		noteLabels: string(owner), noteName: config.Name, noteCreated: strconv.FormatInt(createdAt, 10),
		noteState: of.stateDir, noteMachine: of.machine, noteUser: strconv.Itoa(of.uid),
	}
}

// has reports whether an object belongs to the place, and returns its sandbox's id. Who can write
// Sandboxes of the namespace can forge that.
func (of place) has(o metav1.Object) (id string, ok bool) {
	notes := o.GetAnnotations()
	id = o.GetLabels()[labelID]
	return id, runtime.IsID(id) && o.GetName() == objectName(id) && o.GetLabels()[labelPlace] == of.hash() &&
		notes[noteState] == of.stateDir && notes[noteMachine] == of.machine && notes[noteUser] == strconv.Itoa(of.uid)
}

// found reads the labels and annotations of an object. If it is not the place's, or they are not
// valid, ok is false.
func found(o metav1.Object, of place) (f boot.Found, ok bool) {
	notes := o.GetAnnotations()
	size := 0
	for _, v := range notes {
		size += len(v)
	}
	if f.ID, ok = of.has(o); !ok || size > maxNotes {
		return boot.Found{}, false
	}
	owner := map[string]string{}
	if err := json.Unmarshal([]byte(notes[noteLabels]), &owner); err != nil {
		return boot.Found{}, false
	}
	var err error
	if f.CreatedAt, err = strconv.ParseInt(notes[noteCreated], 10, 64); err != nil || f.CreatedAt < 0 {
		return boot.Found{}, false
	}
	f.Name, f.Labels = notes[noteName], map[string]string{launch.LabelSandboxID: f.ID, launch.LabelCreatedAt: notes[noteCreated]}
	maps.Copy(f.Labels, owned(owner))
	return f, true
}
