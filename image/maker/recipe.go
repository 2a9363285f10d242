package maker

// A Recipe is what the instructions COPY, ADD and WORKDIR of a Dockerfile put into a layer. All of
// it but the paths of the host is hostile.
type Recipe struct {
	Sources []Source `json:"sources,omitempty"`
	// Dest is an absolute path inside. It is a directory, which is made, with IntoDir, or if there
	// is one, or without sources.
	Dest    string `json:"dest"`
	IntoDir bool   `json:"intoDir,omitempty"`
	// Chown is USER[:GROUP], names or numbers; "" is root, and keeps an archive's owners.
	Chown string `json:"chown,omitempty"`
	// Chmod is an octal mode of all that is copied; "" keeps modes.
	Chmod   string `json:"chmod,omitempty"`
	Unpacks bool   `json:"unpacks,omitempty"` // archives are unpacked
	// Fresh makes the layer also if the store has it.
	Fresh bool `json:"fresh,omitempty"`
}

// A Source is files to copy: of a directory of the host, of an image, or a text.
type Source struct {
	Dir   string `json:"dir,omitempty"`   // absolute
	Image string `json:"image,omitempty"` // id
	// Name is a path in it, as in filepath.Match unless Exact is set; of a text its name.
	Name  string `json:"name"`
	Exact bool   `json:"exact,omitempty"`
	// Ignore are patterns as in .dockerignore, of what counts as not there in Dir.
	Ignore  []string `json:"ignore,omitempty"`
	Exclude []string `json:"exclude,omitempty"` // patterns of what is not copied
	Text    []byte   `json:"text,omitempty"`    // with neither Dir nor Image
}
