package worker

// Failure classes: who has to act on a failure.
const (
	ClassCollectorBug      = "collector_bug"      // the op's own code is wrong
	ClassUnsupportedConfig = "unsupported_config" // this device or version has no such kernel
	ClassFrameworkBug      = "framework_bug"      // a valid case that the framework rejects or crashes on
	ClassResourceIssue     = "resource_issue"     // memory, disk, descriptors
	ClassTransient         = "transient"          // passes when tried again
	ClassTimeout           = "timeout"            // ran past its deadline
)
