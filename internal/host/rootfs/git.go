package rootfs

import (
	"maps"
	"os"
	"path/filepath"

	"wolffia/internal/git/gitask"
	"wolffia/internal/host/boot"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// composeGit writes git's configuration of the system level, if the sandbox has one.
func composeGit(b *boot.Params, spec *launch.Spec) error {
	if b.Config.Git == nil {
		return nil
	}
	spec.Git = at(b, "git")
	if err := os.Mkdir(spec.Git, 0o755); err != nil {
		return err
	}
	return writeGit(spec.Git, b.Config.Git)
}

// writeGit writes the files of git's configuration to a directory.
func writeGit(dir string, g *runtime.GitConfig) error {
	for name, text := range gitFiles(g) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode(name)); err != nil {
			return err
		}
	}
	return nil
}

// gitFiles returns the files of launch.GitPath. git reads config in the place of
// /etc/gitconfig, which it includes.
func gitFiles(g *runtime.GitConfig) map[string]string {
	files := map[string]string{gitask.Name: string(gitask.Program()), "config": "# Of the git configuration on the host. " +
		"Inside, git config and git config --global override it.\n[include]\n\tpath = /etc/gitconfig\n" + g.Config}
	if g.Ignore != "" {
		files["ignore"] = g.Ignore
		files["config"] += "[core]\n\texcludesFile = " + launch.GitPath + "/ignore\n"
	}
	maps.Copy(files, g.Files)
	return files
}

// mode returns the mode of a file of gitFiles.
func mode(name string) os.FileMode {
	if name == gitask.Name {
		return 0o755
	}
	return 0o644
}
