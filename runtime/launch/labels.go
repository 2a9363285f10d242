package launch

// The labels that record a sandbox's owner. They are part of its configuration, and
// a backend with an engine gives them to the sandbox's container too.
const (
	LabelSandboxID      = "wolffia.sandboxId"
	LabelOrganizationID = "wolffia.organizationId"
	LabelProjectID      = "wolffia.projectId"
	LabelUserID         = "wolffia.userId"
	LabelCreatedAt      = "wolffia.createdAt"     // ms since 1970
	LabelGitConfigured  = "wolffia.gitConfigured" // true or false

	// LabelSettings has the settings that the request for an owner's own sandbox has set, as a JSON object.
	LabelSettings = "wolffia.settings"

	// LabelRecord marks a sandbox of a service.Service that is not an owner's own; its value is the service's record, as JSON.
	LabelRecord = "wolffia.fleet"

	// LabelContainer begins the labels with the record of a sandbox that is a container of package service/container.
	LabelContainer = "wolffia.container"

	// LabelKey has the name of the API key by which a sandbox was created.
	LabelKey = "wolffia.key"
)
