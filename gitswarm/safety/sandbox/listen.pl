# As the first half of bridge.py, which says what it is for; it starts in 2 ms, and Python in 10. Without modules:
# they are half of that, and not on every system. PYTHON BRIDGE SOCKET PROXY,PORT,... PROGRAM ...
use strict;

my ( $python, $bridge, $door, $ports, @command ) = @ARGV;
my @listeners;
my @served;
$^F = 1 << 16;    # the bridge is handed the listeners
for my $port ( split /,/, $ports ) {
    my $ipv4 = pack 'S n N x8',     2,  $port, 0x7f000001;
    my $ipv6 = pack 'S n N N4 N', 10, $port, 0, 0, 0, 0, 1, 0;
    for my $address ( [ 2, $ipv4 ], [ 10, $ipv6 ] ) {
        socket my $listener, $address->[0], 1, 0 or next;    # no IPv6
        bind $listener, $address->[1] or next;               # or a port that only root may take
        listen $listener, 128 or next;
        push @listeners, $listener;
        push @served, "$port=" . fileno $listener;
    }
}

# An orphan of the sandbox's first process: the program has no child that it does not know.
if ( fork == 0 ) {
    if ( fork == 0 ) {
        setpgrp 0, 0;
        open STDIN,  '<', '/dev/null';    # the program's alone: whoever reads them waits for their end
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';
        my $readable = '';
        vec( $readable, fileno $_, 1 ) = 1 for @listeners;
        select $readable, undef, undef, undef;
        exec $python, '-I', '-S', $bridge, $door, join ',', @served;
    }
    exit;
}
wait;
close $_ for @listeners;
exec { $command[0] } @command or print STDERR "cannot start $command[0]: $!\n";
exit 127;
