package config

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// TestFormatWidths: a width that the library cannot write is an error, and not a text
// that says so.
func TestFormatWidths(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"%5d|": "    7|", "%-3d|%%": "7  |%", "%1000d": strings.Repeat(" ", 999) + "7", "%.2f": "7.00", "%03[1]d": "007", "100%% %d": "100% 7",
		"%1001d": "", "%-2000000d": "", "%.99999999999999999999f": "", "%5.1000000000f": "",
	} {
		got, err := Functions()["format"].Call([]cty.Value{cty.StringVal(format), cty.NumberIntVal(7)})
		if want == "" && (err == nil || !strings.Contains(err.Error(), "more than 1000 characters")) {
			t.Errorf("%s: %v, %v", format, got, err)
		} else if want != "" && (err != nil || got.AsString() != want) {
			t.Errorf("%s: %v, %v", format, got, err)
		}
	}
	if _, err := Functions()["formatlist"].Call([]cty.Value{cty.StringVal("%2000000s"), cty.ListVal([]cty.Value{cty.StringVal("a")})}); err == nil {
		t.Error("formatlist has no bound")
	}
	if got, err := Functions()["format"].Call([]cty.Value{cty.StringVal("%s-%s"), cty.StringVal("a"), cty.UnknownVal(cty.String)}); err != nil || got.IsKnown() {
		t.Errorf("%v, %v", got, err)
	}
}
