// Package dockerfile has the instructions of a Dockerfile as JSON. Package dockerparse makes them,
// in a program of its own, since the parser takes time to initialize. Variables are as they were
// written.
package dockerfile

import "wolffia/image/maker"

// A File is a Dockerfile.
type File struct {
	Escape string  `json:"escape"` // the escape character
	Args   []Arg   `json:"args"`   // before the first FROM
	Stages []Stage `json:"stages"`
}

// A Stage begins with FROM.
type Stage struct {
	Name     string        `json:"name,omitempty"` // of AS
	Base     string        `json:"base"`
	Platform string        `json:"platform,omitempty"`
	Line     int           `json:"line"`
	Text     string        `json:"text"`
	Steps    []Instruction `json:"steps"`
}

// An Instruction is one but FROM. Only the fields that Name has are set.
type Instruction struct {
	Name string `json:"name"` // in capital letters
	Line int    `json:"line"`
	Text string `json:"text"` // on one line

	Pairs []Pair `json:"pairs,omitempty"` // ENV, LABEL
	Args  []Arg  `json:"args,omitempty"`  // ARG
	// Words are of RUN, CMD, ENTRYPOINT, SHELL, EXPOSE, VOLUME, ONBUILD. With Shell they are a
	// text for one.
	Words []string `json:"words,omitempty"`
	Shell bool     `json:"shell,omitempty"`
	Value string   `json:"value,omitempty"` // WORKDIR, USER, STOPSIGNAL, MAINTAINER

	Script  []byte  `json:"script,omitempty"` // RUN: a program, in place of Words
	Mounts  []Mount `json:"mounts,omitempty"`
	Network string  `json:"network,omitempty"`

	Copy   *Copy              `json:"copy,omitempty"`   // COPY, ADD
	Health *maker.Healthcheck `json:"health,omitempty"` // HEALTHCHECK
	// Unsupported says what in the instruction is not supported; "" if all is.
	Unsupported string `json:"unsupported,omitempty"`
}

// A Pair is a name and a value.
type Pair struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Quoted bool   `json:"quoted,omitempty"` // the old form, NAME VALUE
}

// An Arg is an argument, with its default.
type Arg struct {
	Key   string  `json:"key"`
	Value *string `json:"value,omitempty"`
}

// A Mount is one of RUN --mount.
type Mount struct {
	Type     string  `json:"type"` // bind, cache, secret
	From     string  `json:"from,omitempty"`
	Source   string  `json:"source,omitempty"`
	Target   string  `json:"target,omitempty"`
	ID       string  `json:"id,omitempty"`
	Required bool    `json:"required,omitempty"`
	Env      *string `json:"env,omitempty"` // of a secret
}

// A Copy is what COPY and ADD have.
type Copy struct {
	Sources  []string  `json:"sources,omitempty"`
	Contents []Content `json:"contents,omitempty"`
	Dest     string    `json:"dest"`
	From     string    `json:"from,omitempty"`
	Chown    string    `json:"chown,omitempty"`
	Chmod    string    `json:"chmod,omitempty"`
	Exclude  []string  `json:"exclude,omitempty"`
	Unpack   bool      `json:"unpack,omitempty"`
}

// A Content is a here-document.
type Content struct {
	Name   string `json:"name"`
	Data   string `json:"data"`
	Expand bool   `json:"expand,omitempty"`
}
