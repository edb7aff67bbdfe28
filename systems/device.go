package systems

import (
	"regexp"
	"strings"
)

// device is the name of a GPU that messages show, and the pattern of names by which drivers report it.
type device struct {
	name    string
	pattern *regexp.Regexp
}

// devices are the GPUs of the built-in systems. SXM and PCIe boards with the same chip have different names.
var devices = map[string]device{
	"a100_pcie": {"NVIDIA A100 80GB PCIe", regexp.MustCompile(`\bA100 80GB PCIE\b`)},
	"a100_sxm":  {"NVIDIA A100-SXM4-80GB", regexp.MustCompile(`\bA100 SXM\d* 80GB\b`)},
	"a30":       {"NVIDIA A30", regexp.MustCompile(`\bA30\b`)},
	"b200_sxm":  {"NVIDIA B200", regexp.MustCompile(`\bB200\b`)},
	"b300_sxm":  {"NVIDIA B300 SXM6 AC", regexp.MustCompile(`\bB300\b`)},
	"b60":       {"Intel Arc Pro B60", regexp.MustCompile(`\bB60\b`)},
	"gb200":     {"NVIDIA GB200", regexp.MustCompile(`\bGB200\b`)},
	"gb300":     {"NVIDIA GB300", regexp.MustCompile(`\bGB300\b`)},
	"h100_pcie": {"NVIDIA H100 PCIe", regexp.MustCompile(`\bH100\b.*\bPCIE\b`)},
	"h100_sxm":  {"NVIDIA H100 80GB HBM3", regexp.MustCompile(`\bH100\b.*\b(HBM3|SXM\d*)\b`)},
	"h200_sxm":  {"NVIDIA H200", regexp.MustCompile(`\bH200$|\bH200 SXM`)},
	"l4":        {"NVIDIA L4", regexp.MustCompile(`\bL4\b`)},
	"l40s":      {"NVIDIA L40S", regexp.MustCompile(`\bL40S\b`)},
	"rtx_pro_6000_server": {
		"NVIDIA RTX PRO 6000 Blackwell Server Edition",
		regexp.MustCompile(`\bRTX PRO 6000\b.*\bSERVER\b`),
	},
}

// DeviceName returns the name by which a driver reports the system's GPU, for example "NVIDIA
// H200". It returns "" if the system is not built in.
func (s *Spec) DeviceName() string { return devices[s.Name].name }

// MatchesDevice reports whether a device with that name belongs to the system. If the device names
// of the system are not known, both results are false.
func (s *Spec) MatchesDevice(device string) (match, known bool) {
	d, ok := devices[s.Name]
	if !ok {
		return false, false
	}
	return d.pattern.MatchString(strings.ToUpper(strings.ReplaceAll(device, "-", " "))), true
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
