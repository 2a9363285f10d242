package engine

import (
	"context"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// The labels of a container, beside its sandbox's.
const (
	labelName  = "wolffia.name"
	labelState = "wolffia.stateDir"
	labelUser  = "wolffia.uid" // of the state directory's owner
)

// ownerLabels record a sandbox's owner (package service). A container has all of them,
// some of them empty: else the engine would take them from the image.
var ownerLabels = []string{launch.LabelOrganizationID, launch.LabelProjectID, launch.LabelUserID, launch.LabelGitConfigured}

// maxLabel is the length of the longest label that Scan accepts, in bytes.
const maxLabel = 4096

// A place is a state directory. Users who share an engine may have state directories with
// the same path.
type place struct {
	stateDir string
	uid      int // the owner
}

func containerName(id string) string { return "wolffia-" + id }

// labels returns the labels of a sandbox's container.
func labels(spec *launch.Spec, of place) map[string]string {
	all := map[string]string{labelName: ""}
	for _, k := range ownerLabels {
		all[k] = ""
	}
	maps.Copy(all, spec.Config.Labels)
	all[launch.LabelSandboxID], all[labelName] = spec.ID, spec.Config.Name
	all[labelState], all[labelUser] = of.stateDir, strconv.Itoa(of.uid)
	all[launch.LabelCreatedAt] = strconv.FormatInt(spec.CreatedAt, 10)
	return all
}

// has reports whether a container with this name and these labels belongs to the place,
// and returns its sandbox's id. An image can set labels, but no name; a user who can set
// both is as good as root.
func (of place) has(name string, labels map[string]string) (id string, ok bool) {
	id = labels[launch.LabelSandboxID]
	return id, runtime.IsID(id) && strings.TrimPrefix(name, "/") == containerName(id) &&
		labels[labelUser] == strconv.Itoa(of.uid) && of.is(labels[labelState])
}

// is reports whether path is the state directory. Labels of earlier versions may have it by
// another name, with symbolic links.
func (of place) is(path string) bool {
	if path == of.stateDir {
		return true
	}
	one, err := os.Stat(path)
	other, oerr := os.Stat(of.stateDir)
	return err == nil && oerr == nil && os.SameFile(one, other)
}

// Scan returns all sandboxes of this user's state directory that the engine has.
func (e *Engine) Scan(ctx context.Context) ([]boot.Found, error) {
	of := e.place
	r, err := e.client.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", labelState, labelUser+"="+strconv.Itoa(of.uid)),
	})
	if err != nil {
		return nil, e.explain("list the containers", err)
	}
	var all []boot.Found
	for i := range r.Items {
		if f, ok := found(&r.Items[i], of); ok {
			all = append(all, f)
		}
	}
	return all, nil
}

// found reads the labels of a container. If it is not the place's, or the labels are not
// valid, ok is false.
func found(c *container.Summary, of place) (f boot.Found, ok bool) {
	for _, name := range c.Names {
		if f.ID, ok = of.has(name, c.Labels); ok {
			break
		}
	}
	var err error
	if f.CreatedAt, err = strconv.ParseInt(c.Labels[launch.LabelCreatedAt], 10, 64); !ok || err != nil || f.CreatedAt < 0 {
		return boot.Found{}, false
	}
	f.Name, f.Labels = c.Labels[labelName], map[string]string{launch.LabelSandboxID: f.ID, launch.LabelCreatedAt: c.Labels[launch.LabelCreatedAt]}
	for _, k := range ownerLabels {
		if v := c.Labels[k]; v != "" {
			f.Labels[k] = v
		}
	}
	for _, v := range f.Labels {
		if len(v) > maxLabel || len(f.Name) > maxLabel {
			return boot.Found{}, false
		}
	}
	return f, true
}
