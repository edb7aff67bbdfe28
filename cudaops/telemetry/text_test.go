package telemetry

import (
	"slices"
	"strings"
	"testing"
)

// TestModifiedPages parses pages as modified by exporters and proxies.
func TestModifiedPages(t *testing.T) {
	t.Parallel()
	const gpu = `{gpu="0",UUID="GPU-a",hostname="n1"}`
	for _, c := range []struct {
		name, page string
		bad        string // expected error of the page
	}{
		{"timestamps in milliseconds", "DCGM_FI_DEV_POWER_USAGE" + gpu +
			" 350.5 1700000000123\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" + gpu + " 7000 1700000000123\n", ""},
		{"a bad line behind good ones", "DCGM_FI_DEV_POWER_USAGE" + gpu + " 350.5\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" +
			gpu + " 7000\nDCGM_FI_DEV_GPU_TEMP" + gpu + " warm\n", "line 3"},
		{"lines that end with CRLF", "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\r\nDCGM_FI_DEV_POWER_USAGE" + gpu +
			" 350.5\r\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" + gpu + " 7000\r\n", ""},
		{"escapes in labels", `DCGM_FI_DEV_POWER_USAGE{modelName="a \"b\" } \\ \n",gpu="0",UUID="GPU-a",hostname="n1"} ` +
			`350.5 1` + "\n" + `DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{modelName="a \"b\" } ` +
			`\\ \n",gpu="0",UUID="GPU-a",hostname="n1"} 7000` + "\n", ""},
	} {
		p := Builtin().parse([]byte(c.page))
		if (c.bad == "") != (p.Malformed == "") || !strings.Contains(p.Malformed, c.bad) {
			t.Errorf("%s: the error is %q", c.name, p.Malformed)
		}
		i := slices.IndexFunc(p.Readings, func(r Reading) bool { return r.GPU.UUID == "GPU-a" })
		if i < 0 || p.Readings[i].Values[Power] != 350.5 || p.Readings[i].Values[Energy] != 7 {
			t.Errorf("%s: %+v", c.name, p.Readings)
		}
	}
}
