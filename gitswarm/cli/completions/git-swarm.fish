# git-swarm for fish: git swarm completion fish | source

function __git_swarm_candidates
    set -l line (commandline -opc)
    set -l first 2
    if test "$line[1]" = git
        set first (math (contains -i -- swarm $line) + 1)
    end
    git-swarm __complete $line[$first..-1] (commandline -ct) 2>/dev/null
end

function __git_swarm_is_meant
    contains -- swarm (commandline -opc)
end

complete -c git-swarm -a '(__git_swarm_candidates)'
complete -c git -n __git_swarm_is_meant -a '(__git_swarm_candidates)'
