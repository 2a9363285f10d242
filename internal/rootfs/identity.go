package rootfs

import (
	"fmt"

	"wolffia/internal/statedir"
)

// passwd and group are the files that programs look names up in.
func passwd(c *statedir.Config) string {
	return fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\n%s:x:%d:%d:%s:%s:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
		c.User, c.UID, c.GID, c.User, Home(c))
}

func group(c *statedir.Config) string {
	return fmt.Sprintf("root:x:0:\n%s:x:%d:\nnogroup:x:65534:\n", c.User, c.GID)
}

// Home is the user's home directory inside.
func Home(c *statedir.Config) string { return "/home/" + c.User }
