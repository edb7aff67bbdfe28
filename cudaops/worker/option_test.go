package worker_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/worker"
)

type options struct {
	window  int
	verify  bool
	mode    string
	size    *float64
	words   []string
	timeout worker.Duration
	path    string
	any     json.RawMessage
}

func (o *options) declare() []worker.Option {
	return []worker.Option{
		{Name: "window", Into: &o.window, Default: 192, Min: 1, Max: 4096, Doc: "cases at a time"},
		{Name: "verify", Into: &o.verify, Doc: "compare results"},
		{Name: "mode", Into: &o.mode, OneOf: []string{"fast", "exact"}, Doc: "how"},
		{Name: "size_gb", Into: &o.size, Doc: "memory"},
		{Name: "words", Into: &o.words, Default: []string{"a", "b"}, Doc: "columns"},
		{Name: "timeout", Into: &o.timeout, Default: worker.Duration(15 * time.Minute), Doc: "limit"},
		{Name: "system", Into: &o.any, Doc: "any value"},
		{Name: "recycle", Into: new(int), Engine: true, Doc: "for the engine"},
		{Name: "ready", Doc: "a block", Block: []worker.Option{{Name: "path", Into: &o.path, Default: "/health"}}},
	}
}

func TestDecodeSetsDefaultsAndValues(t *testing.T) {
	t.Parallel()
	var o options
	err := worker.Decode(o.declare(), map[string]any{
		"window": json.Number("7"), "size_gb": json.Number("1.5"), "timeout": "90s", "recycle": "ignored",
		"ready": map[string]any{"path": "/ok"}, "system": map[string]any{"x": 1}, "mode": nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.window != 7 || o.verify || o.mode != "" || o.size == nil || *o.size != 1.5 || len(o.words) != 2 ||
		time.Duration(o.timeout) != 90*time.Second || o.path != "/ok" || string(o.any) != `{"x":1}` {
		t.Errorf("got %+v", o)
	}

	if err := worker.Decode(o.declare(), nil); err != nil {
		t.Fatal(err)
	}
	if o.window != 192 || o.path != "/health" || time.Duration(o.timeout) != 15*time.Minute {
		t.Errorf("defaults are %+v", o)
	}
}

func TestDecodeRejectsWrongValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"window", json.Number("0"), "from 1 to 4096"},
		{"window", json.Number("1.5"), "a whole number"},
		{"verify", "yes", "true or false"},
		{"mode", "slow", "one of fast, exact"},
		{"words", "a", "a list of texts"},
		{"timeout", "soon", "a time such as"},
		{"timeout", "-1s", "a time such as"},
		{"ready", "x", "must be a block"},
		{"ready", map[string]any{"paht": "/"}, `no option "paht"`},
		{"windows", 1, `no option "windows"; there are mode, ready`},
	} {
		var o options
		err := worker.Decode(o.declare(), map[string]any{c.name: c.value})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: %v, want an error with %q", c.name, c.value, err, c.want)
		}
	}
	required := []worker.Option{{Name: "model", Into: new(string), Required: true, Doc: "the model"}}
	if err := worker.Decode(required, nil); err == nil || !strings.Contains(err.Error(), "option model is not set") {
		t.Errorf("without a required option: %v", err)
	}
}

func TestOptionDefaultsReadAsInPlans(t *testing.T) {
	t.Parallel()
	var o options
	var got []string
	for _, d := range o.declare() {
		got = append(got, d.DefaultText())
	}
	if want := `192,,,,a, b,"15m",,,`; strings.Join(got, ",") != want {
		t.Errorf("defaults are %q, want %q", strings.Join(got, ","), want)
	}
}
