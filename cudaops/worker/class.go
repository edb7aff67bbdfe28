package worker

// Failure classes, by who can fix the failure.
const (
	ClassCollectorBug      = "collector_bug"      // the op's own code is wrong
	ClassUnsupportedConfig = "unsupported_config" // this device or version has no such kernel
	ClassFrameworkBug      = "framework_bug"      // the framework rejects or crashes on a valid case
	ClassResourceIssue     = "resource_issue"     // memory, disk, descriptors
	ClassTransient         = "transient"          // may pass if it is tried again
	ClassTimeout           = "timeout"            // ran past its deadline
)
