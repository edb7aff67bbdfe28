package systems

import (
	_ "embed"
	"regexp"
	"strings"

	"aicplan/sink/base/fileutil"
)

//go:embed devices.json
var devicesJSON []byte

// devices are the GPUs of the built-in systems: the name that messages show, and the pattern of names by which drivers
// report it. SXM and PCIe boards with the same chip have different names.
var devices = fileutil.Embedded[map[string]struct {
	Name    string
	Pattern *regexp.Regexp
}]("devices.json", devicesJSON)

// DeviceName returns the name by which a driver reports the system's GPU, for example "NVIDIA
// H200". It returns "" if the system is not built in.
func (s *Spec) DeviceName() string { return devices()[s.Name].Name }

// MatchesDevice reports whether a device with that name belongs to the system. If the device names
// of the system are not known, both results are false.
func (s *Spec) MatchesDevice(device string) (match, known bool) {
	d, ok := devices()[s.Name]
	if !ok {
		return false, false
	}
	return d.Pattern.MatchString(strings.ToUpper(strings.ReplaceAll(device, "-", " "))), true
}

// ForDevice returns the built-in system that a device with that name belongs to.
func ForDevice(device string) (string, bool) {
	for _, name := range List() {
		s := Spec{Name: name}
		if ok, _ := s.MatchesDevice(device); ok {
			return name, true
		}
	}
	return "", false
}
