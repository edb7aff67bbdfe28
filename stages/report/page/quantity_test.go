package page

import (
	"strings"
	"testing"

	"aicplan/stages/report/model"
)

func TestUnitsAreEscaped(t *testing.T) {
	t.Parallel()
	got := string(quantity(&model.Spread{P50: 1}, `"><script>`))
	if strings.Contains(got, "<script>") || !strings.Contains(got, "&lt;script&gt;") {
		t.Errorf("%s", got)
	}
}
