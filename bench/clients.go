package main

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// clients measures many clients of one service that create and delete sandboxes, half of them by
// the native API, which records owners in an index, half by OpenSandbox's, which does not.
func (b *bench) clients() (err error) {
	const n, rounds = 64, 4
	address, stop, err := b.served("clients")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var mu sync.Mutex
	all := map[string]times{}
	timed := func(what string, f func() error) error {
		d, err := took(f)
		mu.Lock()
		defer mu.Unlock()
		all[what] = append(all[what], d)
		return err
	}
	err = atOnce(n, func(i int) error {
		for range rounds {
			var made struct{ ID, SandboxID string }
			owner := fmt.Sprintf(`"organizationId":"o","projectId":"p","userId":"%d"`, i)
			api := "http://" + address + "/api/v1/"
			create := func() error { return post(api+"createSandbox", "{"+owner+"}", &made) }
			remove := func() error {
				return post(api+"destroySandbox", "{"+owner+`,"sandboxId":"`+made.SandboxID+`"}`, nil)
			}
			kind := "native"
			if i%2 == 0 {
				kind = "OpenSandbox"
				create = func() error {
					return post("http://"+address+"/v1/sandboxes", `{"image":{"uri":"host"},"timeout":600}`, &made)
				}
				remove = func() error {
					q, err := http.NewRequest(http.MethodDelete, "http://"+address+"/v1/sandboxes/"+made.ID, nil)
					if err != nil {
						return err
					}
					res, err := http.DefaultClient.Do(q)
					if err != nil {
						return err
					}
					return res.Body.Close()
				}
			}
			if err := errors.Join(timed("create, "+kind, create), timed("delete, "+kind, remove)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, what := range []string{"create, OpenSandbox", "create, native", "delete, OpenSandbox", "delete, native"} {
		b.row("64 clients: "+what, all[what], "")
	}
	return nil
}
