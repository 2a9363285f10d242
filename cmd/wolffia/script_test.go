package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"wolffia/internal/testbin"
)

func TestMain(m *testing.M) {
	code := m.Run()
	testbin.Remove()
	os.Exit(code)
}

// The scripts run the real program, and are what its users may rely on.
func TestScripts(t *testing.T) {
	bin := testbin.Dir(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Deadline:            time.Now().Add(10 * time.Minute),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			// As root, the user that is dropped to must get here.
			for _, d := range []string{filepath.Dir(env.WorkDir), env.WorkDir} {
				if err := os.Chmod(d, 0o755); err != nil {
					return err
				}
			}
			home := filepath.Join(env.WorkDir, "home")
			if err := os.Mkdir(home, 0o755); err != nil {
				return err
			}
			env.Setenv("HOME", home)
			env.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			env.Setenv("WOLFFIA_STATE_DIR", filepath.Join(env.WorkDir, "state"))
			env.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+who+"_NAME", "tester")
				env.Setenv("GIT_"+who+"_EMAIL", "tester@example.invalid")
			}
			env.Setenv("SECRET_OF_THE_HOST", "must-not-be-seen")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			return cond == "root" && os.Geteuid() == 0, nil
		},
	})
}
