package nvml

// Linked is implemented by devices that report their NVLinks.
type Linked interface {
	// Links returns the active NVLinks. The error wraps ErrUnsupported if the device has no NVLink.
	Links() ([]Link, error)
}

// Link is one active NVLink.
type Link struct {
	// Remote is the PCI address of the device at the other end in lower case, or "" if unknown.
	Remote string `json:"remote,omitempty"`
	// Switch is true if the other end is an NVSwitch or is not visible.
	Switch bool `json:"switch"`
}
