module github.com/understudy-mq/understudy/interop/tools/rabbithole

go 1.26

require github.com/michaelklishin/rabbit-hole/v2 v2.12.0
