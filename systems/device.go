package systems

import (
	"regexp"
	"strings"
)

// deviceNames match the names by which drivers report the GPUs of the built-in systems. SXM and
// PCIe boards with the same chip have different names.
var deviceNames = map[string]*regexp.Regexp{
	"a100_pcie":           regexp.MustCompile(`\bA100 80GB PCIE\b`),
	"a100_sxm":            regexp.MustCompile(`\bA100 SXM\d* 80GB\b`),
	"a30":                 regexp.MustCompile(`\bA30\b`),
	"b200_sxm":            regexp.MustCompile(`\bB200\b`),
	"b300_sxm":            regexp.MustCompile(`\bB300\b`),
	"b60":                 regexp.MustCompile(`\bB60\b`),
	"gb200":               regexp.MustCompile(`\bGB200\b`),
	"gb300":               regexp.MustCompile(`\bGB300\b`),
	"h100_pcie":           regexp.MustCompile(`\bH100\b.*\bPCIE\b`),
	"h100_sxm":            regexp.MustCompile(`\bH100\b.*\b(HBM3|SXM\d*)\b`),
	"h200_sxm":            regexp.MustCompile(`\bH200$|\bH200 SXM`),
	"l4":                  regexp.MustCompile(`\bL4\b`),
	"l40s":                regexp.MustCompile(`\bL40S\b`),
	"rtx_pro_6000_server": regexp.MustCompile(`\bRTX PRO 6000\b.*\bSERVER\b`),
}

// expectedNames are the device names that messages show.
var expectedNames = map[string]string{
	"a100_pcie":           "NVIDIA A100 80GB PCIe",
	"a100_sxm":            "NVIDIA A100-SXM4-80GB",
	"a30":                 "NVIDIA A30",
	"b200_sxm":            "NVIDIA B200",
	"b300_sxm":            "NVIDIA B300 SXM6 AC",
	"b60":                 "Intel Arc Pro B60",
	"gb200":               "NVIDIA GB200",
	"gb300":               "NVIDIA GB300",
	"h100_pcie":           "NVIDIA H100 PCIe",
	"h100_sxm":            "NVIDIA H100 80GB HBM3",
	"h200_sxm":            "NVIDIA H200",
	"l4":                  "NVIDIA L4",
	"l40s":                "NVIDIA L40S",
	"rtx_pro_6000_server": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
}

// DeviceName returns the name by which a driver reports the system's GPU, for example "NVIDIA
// H200". It returns "" if the system is not built in.
func (s *Spec) DeviceName() string { return expectedNames[s.Name] }

// MatchesDevice reports whether a device with that name belongs to the system. If the device names
// of the system are not known, both results are false.
func (s *Spec) MatchesDevice(device string) (match, known bool) {
	re, ok := deviceNames[s.Name]
	if !ok {
		return false, false
	}
	return re.MatchString(strings.ToUpper(strings.ReplaceAll(device, "-", " "))), true
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
