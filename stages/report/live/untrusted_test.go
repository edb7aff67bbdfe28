package live

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// TestHiddenCharactersAreShown: text from plans and workers reorders no line of the
// page and of the list, wherever an event has it.
func TestHiddenCharactersAreShown(t *testing.T) {
	t.Parallel()
	const trap = "a\u202eb\u200bc\x1b[2J"
	text, err := json.Marshal(trap)
	if err != nil {
		t.Fatal(err)
	}

	r, write := runAt(t)
	for _, line := range []string{
		`"type":"run_start","plan":X,"host":X,"graph":[{"address":X,"kind":"collect","after":[X],"cases":1}]`,
		`"type":"stage_start","stage":X,"reason":X`,
		`"type":"case_failed","stage":X,"op":X,"class":X,"message":X,"params":{"name":X}`,
		`"type":"sample","stage":X,"worker":X,"device_uuid":X,"params":{"name":X},"metrics":{"latency":1}`,
		`"type":"message","stage":X,"@level":"warn","@message":X`,
		`"type":"stage_end","stage":X,"status":"failed","message":X`,
	} {
		write(`{"@timestamp":"2026-11-22T10:00:00Z",` + strings.ReplaceAll(line, "X", string(text)) + "}\n")
	}

	f := Follow(r, nil)
	if err := f.Poll(); err != nil {
		t.Fatal(err)
	}

	s := f.State
	if len(s.Stages) != 1 || len(s.Failures) != 1 || len(s.Messages) != 1 || len(s.Workers) != 1 {
		t.Fatalf("%d stages, %d failures, %d messages, %d workers", len(s.Stages), len(s.Failures), len(s.Messages),
			len(s.Workers))
	}

	for _, v := range []any{s, List([]checkpoint.Run{{ID: r.ID, Dir: r.Dir}}, nil, time.Now())[0]} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}

		var values any
		if err := json.Unmarshal(raw, &values); err != nil {
			t.Fatal(err)
		}

		eachText(values, func(text string) {
			if textutil.Visible(text) != text {
				t.Errorf("hidden characters in %q", text)
			}
		})

		if !strings.Contains(string(raw), `a\\u202eb`) {
			t.Errorf("the text is gone from %s", raw)
		}
	}
}

func eachText(v any, do func(string)) {
	switch v := v.(type) {
	case string:
		do(v)
	case []any:
		for _, x := range v {
			eachText(x, do)
		}
	case map[string]any:
		for _, x := range v {
			eachText(x, do)
		}
	}
}

// TestEveryStatusHasAColour: a stage that failed its gate looked like one that waits.
func TestEveryStatusHasAColour(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("assets/live.css")
	if err != nil {
		t.Fatal(err)
	}

	for status, want := range map[stage.Status]string{
		stage.StatusOK: "good", stage.StatusPartial: "warn", stage.StatusNeeds: "warn", stage.StatusGateFailed: "bad",
		stage.StatusPreflight: "bad", stage.StatusInterrupted: "warn", stage.StatusFailed: "bad", stage.StatusSkipped: "warn",
	} {
		rule := regexp.MustCompile(`\.graph \.` + string(status) + ` rect[^{}]*\{ stroke: var\(--(\w+)\)`).FindSubmatch(css)
		if rule == nil || string(rule[1]) != want {
			t.Errorf("%s: %q, want %s", status, rule, want)
		}
	}
}
