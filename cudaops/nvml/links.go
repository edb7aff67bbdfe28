package nvml

// Linked is implemented by devices that know their NVLinks.
type Linked interface {
	// Links lists the active NVLinks. The error wraps ErrUnsupported where the
	// device has none.
	Links() ([]Link, error)
}

// Link is one active NVLink.
type Link struct {
	// Remote is the PCI address of the device at the other end, lower case; empty
	// where the driver does not say.
	Remote string `json:"remote,omitempty"`
	// Switch says that the other end is an NVSwitch, or hidden behind one.
	Switch bool `json:"switch"`
}
