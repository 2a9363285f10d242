package server

import (
	"context"
	"strings"
	"time"

	"wolffia/runtime"
	"wolffia/service"
)

type questionsRequest struct {
	ownerRequest
	Seen   int64 `json:"seen"`   // of the last reply; 0: at first
	WaitMS int64 `json:"waitMs"` // for news, at most 55000
}

type questionsReply struct {
	Questions []runtime.Question `json:"questions"`
	Seen      int64              `json:"seen"`
}

func questions(ctx context.Context, i *service.Inside, r *questionsRequest) (any, error) {
	wait := time.Duration(min(max(r.WaitMS, 0), service.MaxAskWait.Milliseconds())) * time.Millisecond
	all, seen, err := i.Questions(ctx, r.Seen, wait)
	return questionsReply{append([]runtime.Question{}, all...), seen}, err
}

type answerRequest struct {
	ownerRequest
	runtime.Answer
}

type answerReply struct {
	Question string `json:"question"`
}

func answerQuestion(ctx context.Context, i *service.Inside, r *answerRequest) (any, error) {
	r.By = strings.TrimSuffix("the service's API: "+r.By, ": ") // a client cannot be somebody else in the log
	return answerReply{r.Question}, i.Answer(ctx, &r.Answer)
}
