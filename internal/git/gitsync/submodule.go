package gitsync

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"wolffia/internal/git/gitconfig"
	"wolffia/internal/git/hostgit"
)

// modulesDir is the directory of the git directories of submodules in that of their repository.
const modulesDir = "/modules/"

// Activate makes git on the host treat the submodule of this pair as one that is in use, as it is
// inside: it sets submodule.NAME.active in the configuration of its repository, and
// submodule.NAME.url if the address inside is one on a network.
func (p *Pair) Activate(ctx context.Context) error { return p.activate(ctx, true) }

// Deactivate is for a submodule that is not in use inside any more (git submodule deinit).
func (p *Pair) Deactivate(ctx context.Context) error { return p.activate(ctx, false) }

func (p *Pair) activate(ctx context.Context, active bool) error {
	above := strings.LastIndex(p.Private, modulesDir)
	name := p.Private[above+len(modulesDir):]
	host, is := strings.CutSuffix(p.Host, modulesDir+name)
	if above < 0 || !is || nameFault(name) != "" {
		return nil
	}
	private, err := p.openPrivate(p.Private[:above])
	if err != nil {
		return err
	}
	defer private.Close()
	text, err := private.read("config", maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	url := ""
	settings, _ := gitconfig.Parse(string(text)) // of a part that git refuses, nothing
	for _, s := range settings {
		if s.Name == "submodule."+name+".url" && crosses(s.Value) && !s.Credential() {
			url = s.Value
		}
	}
	d, err := hostgit.OpenDir(ctx, host, filepath.Join(p.State, emptyDir))
	if err != nil {
		return err
	}
	defer d.Close()
	set := func(key, value string) error {
		args := []string{"config", "submodule." + name + "." + key, value}
		if !active {
			args = []string{"config", "--unset-all", "submodule." + name + "." + key}
		} else if value == "" {
			return nil
		}
		_, _, err := d.Run(ctx, hostgit.Command{Args: args, Status: 5}) // that of no such setting
		return err
	}
	return errors.Join(set("active", "true"), set("url", url))
}
