// Package docs holds the pages for users, which wolffia help prints.
package docs

import "embed"

// Pages has the pages by their paths below this directory.
//
//go:embed ask.md faq.md getting-started.md backends.md cli.md code.md configuration.md console.md cow.md docker.md e2b.md filesystem.md git.md hosts.md images.md install.md kubernetes.md
//go:embed library.md limits.md mcp.md network.md opensandbox.md operating.md pause.md pool.md rules.md scale.md service.md sessions.md static.md swerex.md
//go:embed toolchains.md use-from.md volumes.md recipes/*.md
var Pages embed.FS
