package stage_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicplan/engine/stage"
	"aicplan/engine/stage/stagetest"
)

type sample struct {
	Input string        `hcl:"input"`
	Keep  string        `hcl:"keep,optional"`
	Rules []sampleRule  `hcl:"rule,block"`
	Limit *sampleLimits `hcl:"limit,block"`
	Other int
}

type sampleRule struct {
	Name  string `hcl:"name,label"`
	Match string `hcl:"match,optional"`
}

type sampleLimits struct {
	Max int `hcl:"max"`
}

func TestTagWords(t *testing.T) {
	want := stage.Vocabulary{"": {"input", "keep", "limit", "rule"}, "rule": {"match"}, "limit": {"max"}}
	if d := cmp.Diff(want, stage.TagWords(&sample{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestWordsOfAKind(t *testing.T) {
	got := stage.Words(stagetest.Thing().New())
	if !slices.Contains(got[""], "input") {
		t.Errorf("words of a thing: %v", got)
	}
}
